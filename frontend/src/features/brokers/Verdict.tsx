import { Badge } from "@mantine/core";
import { useTranslation } from "react-i18next";
import { COLOURS, type GroupVerdict, type NodeVerdict } from "@/features/brokers/cluster";

/** A state by its word, with a colour beside it. */
export function Verdict({ verdict, of }: { verdict: GroupVerdict | NodeVerdict; of: "group" | "node" }) {
  const { t } = useTranslation("brokers");
  return (
    <Badge
      color={COLOURS[verdict]}
      variant="light"
      data-verdict={verdict}
      leftSection={<span className="dot" aria-hidden />}
      title={t(`verdict_hint.${of}.${verdict}`)}
    >
      {t(`verdict.${verdict}`)}
    </Badge>
  );
}
