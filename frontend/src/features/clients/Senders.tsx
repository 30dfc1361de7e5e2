import { Skeleton, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { Address, App, Rate, Version } from "@/features/clients/Cells";
import { sendersOptions, type Client } from "@/features/clients/queries";
import { clientKey } from "@/features/clients/words";
import { LinkTo } from "@/ui/links/LinkTo";
import { loaded } from "@/ui/page/loaded";
import { defineColumns, headers } from "@/ui/table/define";
import { PlainTable } from "@/ui/table/PlainTable";

/** The producers of a subject with the highest rates; the tab has all clients. */
export default function Senders({ subject }: { subject: string }) {
  const { t } = useTranslation("clients");
  const [data, instead] = loaded(useQuery(sendersOptions(subject)), <Skeleton height={120} />);
  if (!data) return instead;
  if (data.results.length === 0) return <Text c="dimmed">{t("no_senders")}</Text>;
  return (
    <>
      <PlainTable<Client>
        isDense
        minWidth={320}
        label={t("role.producer")}
        columns={defineColumns<Client>(headers(t), (column) => [
          column("app", (row) => <App row={row} />),
          column("host", (row) => <Address row={row} />),
          column("version", (row) => <Version row={row} />),
          column("rate", { align: "right" }, (row) => <Rate row={row} />),
        ])}
        rows={data.results}
        rowKey={clientKey}
      />
      <LinkTo to="/subjects/$subject" params={{ subject }} search={{ tab: "clients" }} size="sm">
        {t("all_clients")}
      </LinkTo>
    </>
  );
}
