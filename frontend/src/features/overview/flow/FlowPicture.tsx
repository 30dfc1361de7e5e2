import "@/features/overview/flow/flow.css";
import { ActionIcon, Center, Skeleton, Text } from "@mantine/core";
import { useMediaQuery } from "@mantine/hooks";
import { IconChartSankey, IconTable } from "@tabler/icons-react";
import { useQuery } from "@tanstack/react-query";
import { memo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { FlowDrawing } from "@/features/overview/flow/FlowDrawing";
import { FlowTable } from "@/features/overview/flow/FlowTable";
import { flowOptions } from "@/features/overview/queries";
import { useSentence } from "@/i18n/useSentence";
import { loaded } from "@/ui/page/loaded";

export const FLOW_HEIGHT = 280;
/** Such pages have no room for three columns with names: they show the table. */
const NARROW = "(max-width: 47.99em)";

/** Who sends how much to which subjects, and which groups acknowledge it; as a picture or as a table. */
export default memo(function FlowPicture() {
  const { t } = useTranslation("overview");
  const isNarrow = useMediaQuery(NARROW, false, { getInitialValueInEffect: false });
  const reasonOf = useSentence();
  const [isTable, setTable] = useState(false);
  const [data, instead] = loaded(useQuery(flowOptions()), <Skeleton height={FLOW_HEIGHT} />);
  if (!data) return instead;
  if (data.links.length === 0) {
    return (
      <Center h={FLOW_HEIGHT} data-flow="empty">
        <Text c="dimmed">{data.reason ? reasonOf(data.reason) : t("flow.nothing")}</Text>
      </Center>
    );
  }
  const missing = Object.keys(data.unreachable);
  const isDrawn = !isNarrow && !isTable;
  const other = t(isTable ? "common:chart.as_chart" : "common:chart.as_table");
  const Icon = isTable ? IconChartSankey : IconTable;
  return (
    <div className="flow-frame" data-flow={isDrawn ? "drawn" : "table"}>
      {missing.length > 0 && (
        <Text size="xs" c="dimmed" data-unreachable={missing.join(" ")}>
          {t("flow.missing", { missing: missing.join(", ") })}
        </Text>
      )}
      {isDrawn ? <FlowDrawing flow={data} height={FLOW_HEIGHT} /> : <FlowTable flow={data} />}
      {!isNarrow && (
        <ActionIcon
          data-hint={other}
          className="flow-switch"
          variant="subtle"
          color="gray"
          size={24}
          aria-label={`${other}: ${t("flow.title")}`}
          onClick={() => setTable(!isTable)}
        >
          <Icon size={16} aria-hidden />
        </ActionIcon>
      )}
    </div>
  );
});
