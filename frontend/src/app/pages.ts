import {
  IconBell,
  IconCalendarClock,
  IconChartHistogram,
  IconFileImport,
  IconHistory,
  IconKey,
  IconLayoutDashboard,
  IconMailX,
  IconMessages,
  IconRepeat,
  IconRoute,
  IconServer2,
  IconUsers,
  IconUsersGroup,
} from "@tabler/icons-react";
import type { Page } from "@/ui/page";

const all = [
  {
    path: "/",
    isFirst: true,
    load: () => import("@/features/overview/OverviewPage"),
    nav: { label: "overview", section: "messages", order: 0, icon: IconLayoutDashboard },
  },
  {
    path: "/subjects",
    load: () => import("@/features/subjects/SubjectsPage"),
    nav: { label: "subjects", section: "messages", order: 10, icon: IconMessages },
  },
  { path: "/subjects/$subject", load: () => import("@/features/subjects/SubjectPage") },
  {
    path: "/groups",
    load: () => import("@/features/groups/GroupsPage"),
    nav: { label: "groups", section: "messages", order: 20, icon: IconUsersGroup },
  },
  { path: "/groups/$subject/$group", load: () => import("@/features/groups/GroupPage"), search: [] },
  {
    path: "/delayed",
    load: () => import("@/features/delayed/DelayedPage"),
    nav: { label: "delayed", section: "messages", order: 30, icon: IconCalendarClock },
    search: ["subject", "message", "of"],
  },
  {
    path: "/dead-letters",
    load: () => import("@/features/dead_letters/CountsPage"),
    nav: { label: "dead_letters", section: "messages", order: 40, icon: IconMailX },
  },
  {
    path: "/dead-letters/$subject/$group",
    load: () => import("@/features/dead_letters/LettersPage"),
    search: ["letter"],
  },
  {
    path: "/trace",
    load: () => import("@/features/trace/FindPage"),
    nav: { label: "trace", section: "messages", order: 50, icon: IconRoute },
    search: ["subject", "message_id", "recent"],
  },
  {
    path: "/trace/$subject/$brokerGroup/$sequence",
    load: () => import("@/features/trace/TracePage"),
    search: ["recent"],
  },
  {
    path: "/brokers",
    load: () => import("@/features/brokers/BrokersPage"),
    nav: { label: "brokers", section: "cluster", order: 10, icon: IconServer2 },
  },
  { path: "/brokers/$name", load: () => import("@/features/brokers/BrokerPage"), search: ["node"] },
  {
    path: "/tasks",
    load: () => import("@/features/tasks/TasksPage"),
    nav: { label: "tasks", section: "cluster", order: 20, icon: IconRepeat },
    search: [],
  },
  {
    path: "/provisioning",
    load: () => import("@/features/provisioning/ProvisioningPage"),
    nav: { label: "provisioning", section: "cluster", order: 30, icon: IconFileImport, right: "change_subjects" },
    search: [],
  },
  {
    path: "/analytics",
    load: () => import("@/features/analytics/AnalyticsPage"),
    nav: { label: "analytics", section: "insight", order: 10, icon: IconChartHistogram },
  },
  {
    path: "/alerts",
    load: () => import("@/features/alerts/AlertsPage"),
    nav: { label: "alerts", section: "insight", order: 20, icon: IconBell },
    search: ["tab", "search", "target", "is_open"],
  },
  {
    path: "/audit",
    load: () => import("@/features/audit/AuditPage"),
    nav: { label: "audit", section: "insight", order: 30, icon: IconHistory, right: "read_audit" },
  },
  {
    path: "/users",
    load: () => import("@/features/users/UsersPage"),
    nav: { label: "users", section: "settings", order: 10, icon: IconUsers, right: "change_accounts" },
    search: ["search"],
  },
  { path: "/users/$id", load: () => import("@/features/users/UserPage"), search: [] },
  {
    path: "/teams",
    load: () => import("@/features/teams/TeamsPage"),
    nav: { label: "teams", section: "settings", order: 20, icon: IconUsersGroup },
  },
  { path: "/teams/$team", load: () => import("@/features/teams/TeamPage"), search: [] },
  {
    path: "/tokens",
    load: () => import("@/features/tokens/TokensPage"),
    nav: { label: "tokens", section: "settings", order: 30, icon: IconKey },
    search: ["owner"],
  },
  { path: "/account", load: () => import("@/features/account/AccountPage"), search: [] },
  { path: "/sign-in", isPublic: true, isFirst: true, load: () => import("@/features/sign_in/SignInPage") },
] as const satisfies readonly Page[];

declare module "@/ui/addresses" {
  interface Registered {
    page: (typeof all)[number];
  }
}

/** The pages of all features. */
export const pages: readonly Page[] = all;
