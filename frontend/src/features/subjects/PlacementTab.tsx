import { Alert, Badge, Button, Group, List, Skeleton, Stack, Table, Text, Title } from "@mantine/core";
import { useDisclosure } from "@mantine/hooks";
import { useQuery } from "@tanstack/react-query";
import { useTranslation } from "react-i18next";
import { useMay } from "@/api/me";
import { asProblem } from "@/api/problem";
import { ChangePlacement } from "@/features/subjects/ChangePlacement";
import { placesOf, type Place } from "@/features/subjects/placement";
import { PlacementPicture } from "@/features/subjects/PlacementPicture";
import { brokerGroupsOptions, placementOptions } from "@/features/subjects/queries";
import { shellWord } from "@/ui/clientLines";
import { ProblemAlert } from "@/ui/ProblemAlert";
import { Teach } from "@/ui/Teach";
import { BrokerLink } from "@/ui/links";

const STATE_COLOURS = { read_write: "teal", read_only: "orange", write_only: "orange", offline: "red" } as const;

/** Which broker groups serve a subject, which come and go, and what their moves wait for. */
export default function PlacementTab({ subject }: { subject: string }) {
  const { t } = useTranslation("subjects");
  const may = useMay();
  const [isChanging, { open, close }] = useDisclosure();
  const { data, error, refetch } = useQuery(placementOptions(subject));
  if (error && asProblem(error).code === "route.unknown") {
    return (
      <Teach title={t("placement.none_title")} commands={[`qmq produce ${shellWord(subject)} -p hello=world`]}>
        {t("placement.none_text")}
      </Teach>
    );
  }
  if (!data) return error ? <ProblemAlert error={error} onRetry={() => void refetch()} /> : <Skeleton height={240} />;
  const { data: route, etag } = data;
  const places = placesOf(route);
  return (
    <Stack gap="lg">
      <Group justify="space-between" align="center">
        <Title order={2} size="h4">
          {t("placement.title")}
        </Title>
        {may("change_cluster") && (
          <Button variant="default" onClick={open} data-action="place">
            {t("placement.change")}
          </Button>
        )}
      </Group>
      <PlacementPicture places={places} />
      {Object.keys(route.phases).length > 0 && (
        <Alert color="blue" title={t("placement.moving")} role="status">
          {route.waiting.length === 0 ? (
            t("placement.next_step")
          ) : (
            <List size="sm">
              {route.waiting.map((reason) => (
                <List.Item key={reason}>{reason}</List.Item>
              ))}
            </List>
          )}
        </Alert>
      )}
      <Places places={places} />
      {isChanging && <ChangePlacement onClose={close} subject={subject} route={route} etag={etag} />}
    </Stack>
  );
}

function Places({ places }: { places: readonly Place[] }) {
  const { t } = useTranslation("subjects");
  const { data: brokerGroups } = useQuery(brokerGroupsOptions());
  return (
    <Table.ScrollContainer minWidth={560}>
      <Table>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>{t("placement.broker_group")}</Table.Th>
            <Table.Th>{t("placement.state")}</Table.Th>
            <Table.Th>{t("placement.standing")}</Table.Th>
            <Table.Th>{t("placement.means")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {places.map(({ brokerGroup, standing }) => {
            const state = brokerGroups?.results.find(({ name }) => name === brokerGroup)?.state;
            return (
              <Table.Tr key={brokerGroup} data-row={brokerGroup}>
                <Table.Td>
                  <BrokerLink name={brokerGroup} inherit />
                </Table.Td>
                <Table.Td>
                  {state ? (
                    <Badge variant="light" color={STATE_COLOURS[state]} tt="none">
                      {t(`placement.states.${state}`)}
                    </Badge>
                  ) : (
                    "—"
                  )}
                </Table.Td>
                <Table.Td data-cell="standing">{t(`placement.${standing}`)}</Table.Td>
                <Table.Td>
                  <Text size="sm" c="dimmed">
                    {t(`placement.${standing}_means`)}
                  </Text>
                </Table.Td>
              </Table.Tr>
            );
          })}
        </Table.Tbody>
      </Table>
    </Table.ScrollContainer>
  );
}
