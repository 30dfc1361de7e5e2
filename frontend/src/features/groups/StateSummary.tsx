import { Badge, Group, UnstyledButton } from "@mantine/core";
import { useTranslation } from "react-i18next";
import * as numbers from "@/format/numbers";
import { counted, ORDER } from "@/features/groups/summary";
import { STATE_COLOURS } from "@/features/groups/StateBadge";
import { lagPath, useLivePart } from "@/live/useLive";
import { useLanguage } from "@/ui/preferences";
import { useUrlState } from "@/ui/urlState";

/** How many groups are in which state, what needs a look first; each shows only those. */
export function StateSummary() {
  const { t } = useTranslation("groups");
  const language = useLanguage();
  const [search, change] = useUrlState();
  const counts = useLivePart(lagPath(), "groups", counted);
  const found = ORDER.filter((state) => counts[state] > 0);
  if (found.length === 0) return null;
  return (
    <Group gap="xs" mb="sm" role="group" aria-label={t("summary")}>
      {found.map((state) => {
        const isChosen = search.state === state;
        return (
          <UnstyledButton
            key={state}
            aria-pressed={isChosen}
            data-summary={state}
            onClick={() => change({ state: isChosen ? undefined : state, cursor: undefined })}
          >
            <Badge
              size="lg"
              variant={isChosen ? "filled" : "light"}
              color={STATE_COLOURS[state]}

              className="clickable"
            >
              {numbers.count(counts[state], language)} {t(`state.${state}`)}
            </Badge>
          </UnstyledButton>
        );
      })}
    </Group>
  );
}
