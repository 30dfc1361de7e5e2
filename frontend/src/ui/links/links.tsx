import type { ReactNode } from "react";
import { addressOf, RowLink } from "@/ui/links/RowLink";

interface Look {
  className?: string;
  children?: ReactNode;
}

export function SubjectLink({ subject, children = subject, ...look }: Look & { subject: string }) {
  return (
    <RowLink to={addressOf("subjects", subject)} {...look}>
      {children}
    </RowLink>
  );
}

/** To a consumer group of a subject. */
export function GroupLink({ subject, group, children = group, ...look }: Look & { subject: string; group: string }) {
  return (
    <RowLink to={addressOf("groups", subject, group)} {...look}>
      {children}
    </RowLink>
  );
}

/** To a broker or delay group. */
export function BrokerLink({ name, children = name, ...look }: Look & { name: string }) {
  return (
    <RowLink to={addressOf("brokers", name)} {...look}>
      {children}
    </RowLink>
  );
}

export function TeamLink({ team, ...look }: Look & { team: string }) {
  return (
    <RowLink to={addressOf("teams", team)} {...look}>
      {team}
    </RowLink>
  );
}
