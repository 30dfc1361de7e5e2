import { Alert, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { useMay } from "@/api/me";
import { rehearsalOptions } from "@/features/brokers/rehearse/queries";
import { TextButton } from "@/ui/menu/buttons";
import { Instant } from "@/ui/measure/Instant";
import { useUrlState } from "@/ui/links/urlState";
import { whenDrawn } from "@/ui/dialog/whenOpened";

const RehearseDialog = whenDrawn(
  async () => (await import("@/features/brokers/rehearse/RehearseDialog")).RehearseDialog,
  ["rehearsals"],
);

/** Seldom: what others rehearse is no news of this second. */
const REFRESH_MS = 10_000;

/** The dialog that the address names by `?rehearse=`, and what earlier rehearsals left switched over. */
export function Rehearse() {
  const { t } = useTranslation("brokers");
  const may = useMay();
  const [{ rehearse }, setAddress] = useUrlState();
  const { data } = useQuery(rehearsalOptions({ of: "undo", name: "" }, REFRESH_MS));
  const left = data?.undo ?? [];
  const last = left[0];
  return (
    <>
      {last && (
        <Alert color="blue" title={t("rehearse.left", { count: left.length })} data-rehearsed={left.length} mb="lg">
          <Text size="sm">
            {left.map(({ broker_group: name, master, rehearsal }) => `${name} → ${master} (${rehearsal})`).join(", ")}
            {" · "}
            {last.actor}, <Instant at={last.at} relative />{" "}
            {may("change_cluster") && (
              <TextButton onClick={() => setAddress({ rehearse: "undo" })}>{t("rehearse.switch_back")}</TextButton>
            )}
          </Text>
        </Alert>
      )}
      {rehearse && may("change_cluster") && <RehearseDialog />}
    </>
  );
}
