import { Kbd, Title } from "@mantine/core";
import { Fragment } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { KEYS } from "@/app/help/keys";
import { Dialog } from "@/ui/dialog/Dialog";
import { Table } from "@/ui/table/Table";

/** Which keys the console knows. */
export function KeysDialog({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Dialog opened={opened} onClose={onClose} title={t("help.keys")}>
      {KEYS.map(({ place, keys }) => (
        <Fragment key={place}>
          <Title order={3} size="h5" mt="xs">
            {t(`keys.${place}`)}
          </Title>
          <Table isDense withRowBorders={false}>
            <Table.Tbody>
              {keys.map(([key, what]) => (
                <Table.Tr key={key}>
                  <Table.Td w={120}>
                    {key.split(" ").map((part) => (
                      <Kbd key={part} mr={4}>
                        {part}
                      </Kbd>
                    ))}
                  </Table.Td>
                  <Table.Td>{t(`keys.${what}`)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Fragment>
      ))}
    </Dialog>
  );
}
