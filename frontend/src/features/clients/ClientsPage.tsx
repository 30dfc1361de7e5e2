import { useTranslation } from "@/i18n/useTranslation";
import ClientsTable from "@/features/clients/ClientsTable";
import { PageHeader } from "@/ui/page/PageHeader";

/** Who sends and who consumes. */
export default function ClientsPage() {
  const { t } = useTranslation("clients");
  return (
    <>
      <PageHeader title={t("title")} description={t("about")} />
      <ClientsTable />
    </>
  );
}
