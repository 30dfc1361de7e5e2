import {
  IconBell,
  IconCalendarClock,
  IconChartHistogram,
  IconDatabaseExport,
  IconFileImport,
  IconHistory,
  IconInbox,
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
import type { Page } from "@/ui/page/page";

const all = [
  {
    path: "/",
    load: () => import("@/features/overview/OverviewPage"),
    texts: ["overview", "alerts"],
    nav: { label: "overview", section: "messages", order: 0, icon: IconLayoutDashboard },
  },
  {
    path: "/subjects",
    load: () => import("@/features/subjects/SubjectsPage"),
    texts: ["subjects"],
    nav: { label: "subjects", section: "messages", order: 10, icon: IconMessages },
  },
  { path: "/subjects/$subject", load: () => import("@/features/subjects/SubjectPage"), texts: ["subjects"] },
  {
    path: "/groups",
    load: () => import("@/features/groups/GroupsPage"),
    texts: ["groups"],
    nav: { label: "groups", section: "messages", order: 20, icon: IconInbox },
  },
  {
    path: "/groups/$subject/$group",
    load: () => import("@/features/groups/GroupPage"),
    texts: ["groups", "alerts"],
    search: [],
  },
  {
    path: "/delayed",
    load: () => import("@/features/delayed/DelayedPage"),
    texts: ["delayed", "message"],
    nav: { label: "delayed", section: "messages", order: 30, icon: IconCalendarClock },
    search: ["subject", "message", "of"],
  },
  {
    path: "/dead-letters",
    load: () => import("@/features/dead_letters/CountsPage"),
    texts: ["dead_letters"],
    nav: { label: "dead_letters", section: "messages", order: 40, icon: IconMailX },
  },
  {
    path: "/dead-letters/$subject/$group",
    load: () => import("@/features/dead_letters/DeadLettersPage"),
    texts: ["dead_letters", "message"],
    search: ["letter"],
  },
  {
    path: "/outbox",
    load: () => import("@/features/outbox/OutboxPage"),
    texts: ["outbox"],
    search: ["search"],
    nav: { label: "outbox", section: "messages", order: 45, icon: IconDatabaseExport },
  },
  {
    path: "/outbox/$database",
    load: () => import("@/features/outbox/DatabasePage"),
    texts: ["outbox", "message"],
    search: ["show", "row"],
  },
  {
    path: "/trace",
    load: () => import("@/features/trace/FindPage"),
    texts: ["trace"],
    nav: { label: "trace", section: "messages", order: 50, icon: IconRoute },
    search: ["subject", "message_id", "recent"],
  },
  {
    path: "/trace/$subject/$brokerGroup/$sequence",
    load: () => import("@/features/trace/TracePage"),
    texts: ["trace", "message"],
    search: ["recent"],
  },
  {
    path: "/brokers",
    load: () => import("@/features/brokers/BrokersPage"),
    texts: ["brokers", "reasons"],
    nav: { label: "brokers", section: "cluster", order: 10, icon: IconServer2 },
  },
  {
    path: "/brokers/$name",
    load: () => import("@/features/brokers/BrokerPage"),
    texts: ["brokers", "jobs", "reasons"],
    search: ["node"],
  },
  {
    path: "/jobs",
    load: () => import("@/features/jobs/JobsPage"),
    texts: ["jobs"],
    nav: { label: "jobs", section: "cluster", order: 20, icon: IconRepeat },
    search: [],
  },
  {
    path: "/provisioning",
    load: () => import("@/features/provisioning/ProvisioningPage"),
    texts: ["provisioning"],
    nav: { label: "provisioning", section: "cluster", order: 30, icon: IconFileImport, right: "change_subjects" },
    search: [],
  },
  {
    path: "/analytics",
    load: () => import("@/features/analytics/AnalyticsPage"),
    texts: ["analytics"],
    nav: { label: "analytics", section: "insight", order: 10, icon: IconChartHistogram },
  },
  {
    path: "/alerts",
    load: () => import("@/features/alerts/AlertsPage"),
    texts: ["alerts"],
    nav: { label: "alerts", section: "insight", order: 20, icon: IconBell },
    search: ["tab", "search", "target", "state", "severity", "alert"],
  },
  {
    path: "/audit",
    load: () => import("@/features/audit/AuditPage"),
    texts: ["audit", "reasons"],
    nav: { label: "audit", section: "insight", order: 30, icon: IconHistory, right: "read_audit" },
  },
  {
    path: "/users",
    load: () => import("@/features/users/UsersPage"),
    texts: ["users"],
    nav: { label: "users", section: "settings", order: 10, icon: IconUsers, right: "change_accounts" },
    search: ["search"],
  },
  { path: "/users/$id", load: () => import("@/features/users/UserPage"), texts: ["users"], search: [] },
  {
    path: "/teams",
    load: () => import("@/features/teams/TeamsPage"),
    texts: ["teams"],
    nav: { label: "teams", section: "settings", order: 20, icon: IconUsersGroup },
  },
  { path: "/teams/$team", load: () => import("@/features/teams/TeamPage"), texts: ["teams"], search: [] },
  {
    path: "/tokens",
    load: () => import("@/features/tokens/TokensPage"),
    texts: ["tokens"],
    nav: { label: "tokens", section: "settings", order: 30, icon: IconKey },
    search: ["owner"],
  },
  { path: "/account", load: () => import("@/features/account/AccountPage"), texts: ["account"], search: [] },
  { path: "/sign-in", isPublic: true, load: () => import("@/features/sign_in/SignInPage"), texts: ["sign_in"] },
] as const satisfies readonly Page[];

declare module "@/ui/links/addresses" {
  interface Registered {
    page: (typeof all)[number];
  }
}

/** The pages of all features. */
export const pages: readonly Page[] = all;
