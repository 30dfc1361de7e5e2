import { Badge, Skeleton, Tabs } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { Suspense } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { SubjectState } from "@/features/subjects/columns";
import { FirstMessage } from "@/features/subjects/FirstMessage";
import { subjectOptions, type Subject } from "@/features/subjects/queries";
import { lagPath, useLive } from "@/live/useLive";
import { LiveBadge } from "@/ui/measure/LiveBadge";
import { ResourcePage } from "@/ui/page/ResourcePage";
import { subjectParts } from "@/ui/links/subjectParts";
import { useUrlState, usePathParams } from "@/ui/links/urlState";
import { WithheldNotice } from "@/shared/WithheldNotice";

const allTabs = subjectParts.filter(({ place }) => place === "tab");

/** One subject: what features know of it, a tab each. */
export default function SubjectPage() {
  const { t } = useTranslation("subjects");
  const { subject } = usePathParams("subject");
  return (
    <ResourcePage
      query={useQuery(subjectOptions(subject))}
      title={subject}
      crumb={{ label: t("title"), to: "/subjects" }}
      header={(row) => row && { badges: <Badges subject={row} />, description: row.description }}
      waiting={<Skeleton height={240} />}
      unknown={
        <FirstMessage subject={subject} title={t("unknown.title", { name: subject })}>
          {t("unknown.text")}
        </FirstMessage>
      }
      notice={<WithheldNotice path={lagPath({ subject })} subject={subject} />}
    >
      {(row) => <SubjectTabs subject={row} />}
    </ResourcePage>
  );
}

function Badges({ subject }: { subject: Subject }) {
  const { t } = useTranslation("subjects");
  const live = useLive(lagPath({ subject: subject.name }));
  return (
    <>
      <LiveBadge view={live} />
      <SubjectState subject={subject} />
      {subject.owner && (
        <Badge variant="default" tt="none">
          {t("field.owner")}: {subject.owner}
        </Badge>
      )}
      {subject.tags?.map((tag) => (
        <Badge key={tag} variant="default" tt="none" fw={500} title={t("field.tags")}>
          {tag}
        </Badge>
      ))}
    </>
  );
}

function SubjectTabs({ subject }: { subject: Subject }) {
  const { t } = useTranslation("subjects");
  const may = useMay();
  const navigate = useNavigate();
  const [search] = useUrlState();
  const tabs = allTabs.filter(({ right }) => !right || may(right, subject.owner));
  const shown = tabs.find(({ id }) => id === search.tab) ?? tabs[0];
  return (
    <Tabs
      value={shown?.id ?? null}
      keepMounted={false}
      // Filters of the tab that is left go with it.
      onChange={(tab) => void navigate({ to: ".", search: { tab }, resetScroll: false })}
    >
      <Tabs.List className="tabs-scroll">
        {tabs.map(({ id, label }) => (
          <Tabs.Tab key={id} value={id}>
            {t(label)}
          </Tabs.Tab>
        ))}
      </Tabs.List>
      {tabs.map(({ id, Shown }) => (
        <Tabs.Panel key={id} value={id} pt="md">
          <Suspense fallback={<Skeleton height={240} />}>
            <Shown subject={subject.name} />
          </Suspense>
        </Tabs.Panel>
      ))}
    </Tabs>
  );
}
