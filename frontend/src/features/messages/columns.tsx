import { useMemo } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { bytes, sequence } from "@/format/numbers";
import { Says, type ListedMessage } from "@/features/messages/Says";
import { Instant } from "@/ui/measure/Instant";
import { TextButton } from "@/ui/menu/buttons";
import { placeKey } from "@/ui/message/place";
import { Tags } from "@/ui/message/MessageView";
import { useLanguage } from "@/ui/preferences";
import { defineColumns, headers } from "@/ui/table/define";
import type { Column } from "@/ui/table/types";

/**
 * What a line of messages shows; opening one is up to the list. What is the same in most messages is shown
 * when it is chosen.
 */
export function useMessageColumns(open: (key: string) => void): readonly Column<ListedMessage>[] {
  const { t } = useTranslation("messages");
  const language = useLanguage();
  return useMemo(
    () =>
      defineColumns<ListedMessage>(headers(t), (column) => [
        column("stored_at", { isFixed: true }, (row) => (
          <TextButton inherit className="nowrap" onClick={() => open(placeKey(row))}>
            <Instant at={row.stored_at} withMillis />
            <span className="sr-only"> {t("one.open", { place: placeKey(row) })}</span>
          </TextButton>
        )),
        column("says", { card: "line" }, (row) => <Says message={row} />),
        column("tags", { card: "fact" }, (row) => <Tags tags={row.tags} isLine />),
        column("broker_group", { card: "fact" }, (row) => row.broker_group),
        column("sequence", { align: "right", card: "fact" }, (row) => sequence(row.sequence)),
        column("message_id", { isHiddenAtFirst: true }, (row) => (
          <span className="nowrap">{row.message_id ?? "—"}</span>
        )),
        column("size", { align: "right" }, (row) => <span className="nowrap">{bytes(row.size, language)}</span>),
      ]),
    [t, language, open],
  );
}
