import { Button, Group, SegmentedControl, Stack, Text } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { read } from "@/api/requests";
import { ROLES, unmatched, type Rule } from "@/features/subjects/masking";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { QueryProblem } from "@/ui/page/loaded";

const MessageView = whenDrawn(async () => (await import("@/ui/message/MessageView")).MessageView, ["message"]);

type Role = (typeof ROLES)[number];

/** The newest message as a role would see it with these rules, read when it is requested. */
export function MaskingPreview({ subject, rules }: { subject: string; rules: readonly Rule[] }) {
  const { t } = useTranslation("subjects");
  const [role, setRole] = useState<Role>("operator");
  const masking = JSON.stringify(rules);
  const [requested, setRequested] = useState<string | null>(null);
  const query = useQuery({
    queryKey: ["messages", "masking-preview", subject, role, requested],
    queryFn: read("/api/v1/subjects/{subject}/masking-preview/", {
      path: { subject },
      query: { role, masking: requested ?? "" },
    }),
    enabled: requested !== null,
    retry: false,
  });
  const { data } = query;
  const nothing = data?.message ? unmatched(rules, role, data.message.masked_values) : [];
  return (
    <Stack gap="sm">
      <Group gap="sm">
        <SegmentedControl
          aria-label={t("masking.as_role")}
          value={role}
          onChange={setRole}
          data={ROLES.map((each) => ({ value: each, label: t(`common:role.${each}`) }))}
        />
        <Button
          variant="default"
          loading={query.isFetching}
          onClick={() => (requested === masking ? void query.refetch() : setRequested(masking))}
          data-action="preview-masking"
        >
          {t("masking.preview")}
        </Button>
      </Group>
      {requested === masking && data && (
        <Stack gap="xs" data-masking-preview={role}>
          <Text size="sm">{t("masking.sees", { role: t(`common:role.${role}`) })}</Text>
          {nothing.length > 0 && (
            <Text size="sm" c="dimmed">
              {t("masking.unmatched", { patterns: nothing.join(", ") })}
            </Text>
          )}
          {data.message ? <MessageView message={data.message} /> : <Text c="dimmed">{t("masking.no_message")}</Text>}
        </Stack>
      )}
      {requested === masking && query.isError && <QueryProblem of={query} />}
    </Stack>
  );
}
