import { Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import type { Schema } from "@/api/client";

/** Beside a body that is edited: that its copy is in the format of the message again, if the body was decoded. */
export function EncodedAgain({ decoding }: { decoding: Schema<"MessageRow">["decoding"] }) {
  const { t } = useTranslation("message");
  if (decoding?.problem !== null) return null;
  return (
    <Text size="sm" c="dimmed" data-encoded={decoding.format}>
      {t("encoded_again", { format: decoding.format })}
    </Text>
  );
}
