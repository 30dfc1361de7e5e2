import type { AnchorProps } from "@mantine/core";
import type { ReactNode } from "react";
import { LinkTo } from "@/ui/links/LinkTo";

type Look = Omit<AnchorProps, "component" | "children"> & { children?: ReactNode };

export function SubjectLink({ subject, children = subject, ...look }: Look & { subject: string }) {
  return (
    <LinkTo to="/subjects/$subject" params={{ subject }} {...look}>
      {children}
    </LinkTo>
  );
}

/** To a consumer group of a subject. */
export function GroupLink({ subject, group, children = group, ...look }: Look & { subject: string; group: string }) {
  return (
    <LinkTo to="/groups/$subject/$group" params={{ subject, group }} {...look}>
      {children}
    </LinkTo>
  );
}

/** To a broker or delay group. */
export function BrokerLink({ name, children = name, ...look }: Look & { name: string }) {
  return (
    <LinkTo to="/brokers/$name" params={{ name }} {...look}>
      {children}
    </LinkTo>
  );
}

export function TeamLink({ team, ...look }: Look & { team: string }) {
  return (
    <LinkTo to="/teams/$team" params={{ team }} {...look}>
      {team}
    </LinkTo>
  );
}
