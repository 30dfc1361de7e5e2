import { pages as account } from "@/features/account/pages";
import { pages as alerts } from "@/features/alerts/pages";
import { pages as analytics } from "@/features/analytics/pages";
import { pages as audit } from "@/features/audit/pages";
import { pages as brokers } from "@/features/brokers/pages";
import { pages as deadLetters } from "@/features/dead_letters/pages";
import { pages as delayed } from "@/features/delayed/pages";
import { pages as groups } from "@/features/groups/pages";
import { pages as overview } from "@/features/overview/pages";
import { pages as provisioning } from "@/features/provisioning/pages";
import { pages as signIn } from "@/features/sign_in/pages";
import { pages as subjects } from "@/features/subjects/pages";
import { pages as tasks } from "@/features/tasks/pages";
import { pages as teams } from "@/features/teams/pages";
import { pages as tokens } from "@/features/tokens/pages";
import { pages as trace } from "@/features/trace/pages";
import { pages as users } from "@/features/users/pages";
import type { Page } from "@/ui/page";

const all = [
  ...account,
  ...alerts,
  ...analytics,
  ...audit,
  ...brokers,
  ...deadLetters,
  ...delayed,
  ...groups,
  ...overview,
  ...provisioning,
  ...signIn,
  ...subjects,
  ...tasks,
  ...teams,
  ...tokens,
  ...trace,
  ...users,
] as const;

declare module "@/ui/addresses" {
  interface Registered {
    path: (typeof all)[number]["path"];
  }
}

/** Every feature's pages. */
export const pages: readonly Page[] = all;
