import { Button, FileButton, Group, Paper, Text, Textarea } from "@mantine/core";
import { IconFileUpload } from "@tabler/icons-react";
import { useState, type DragEvent, type Ref } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { bytesOf, DOCUMENT_BYTES_MAX, EXAMPLE } from "@/features/provisioning/document";
import { bytes } from "@/format/numbers";
import { useLanguage } from "@/ui/preferences";

/** The document: pasted, dropped or picked as a file, and edited. */
export function DocumentField({
  text,
  onChange,
  field,
}: {
  text: string;
  onChange: (text: string) => void;
  field: Ref<HTMLTextAreaElement>;
}) {
  const { t } = useTranslation("provisioning");
  const language = useLanguage();
  const [isOver, setOver] = useState(false);
  const [refused, setRefused] = useState("");
  const size = bytesOf(text);
  const most = bytes(DOCUMENT_BYTES_MAX, language);
  const read = async (file: File | null | undefined) => {
    if (!file) return;
    if (file.size > DOCUMENT_BYTES_MAX) {
      setRefused(t("file_too_large", { name: file.name, size: bytes(file.size, language), most }));
      return;
    }
    setRefused("");
    onChange(await file.text());
  };
  const onDrag = (event: DragEvent) => {
    if (!event.dataTransfer.types.includes("Files")) return;
    event.preventDefault();
    setOver(event.type !== "dragleave");
  };
  return (
    <Paper
      withBorder
      p="md"
      bd={isOver ? "2px dashed var(--mantine-primary-color-filled)" : undefined}
      onDragEnter={onDrag}
      onDragOver={onDrag}
      onDragLeave={onDrag}
      onDrop={(event) => {
        event.preventDefault();
        setOver(false);
        void read(event.dataTransfer.files[0]);
      }}
      data-drop=""
    >
      <Group justify="space-between" mb="xs" gap="xs">
        <Text size="sm" c="dimmed">
          {t("drop_hint", { most })}
        </Text>
        <Group gap="xs">
          <FileButton accept=".yaml,.yml,.json" onChange={(file) => void read(file)}>
            {(props) => (
              <Button
                {...props}
                variant="default"
                size="compact-md"
                leftSection={<IconFileUpload size={16} aria-hidden />}
              >
                {t("pick")}
              </Button>
            )}
          </FileButton>
          {text.trim() === "" && (
            <Button variant="default" size="compact-md" onClick={() => onChange(EXAMPLE)}>
              {t("example")}
            </Button>
          )}
          {text !== "" && (
            <Button variant="subtle" size="compact-md" onClick={() => onChange("")}>
              {t("clear")}
            </Button>
          )}
        </Group>
      </Group>
      <Textarea
        ref={field}
        aria-label={t("document")}
        placeholder={t("placeholder")}
        value={text}
        onChange={(event) => {
          setRefused("");
          onChange(event.currentTarget.value);
        }}
        error={
          refused || (size > DOCUMENT_BYTES_MAX ? t("too_large", { size: bytes(size, language), most }) : undefined)
        }
        rows={22}
        spellCheck={false}
        autoComplete="off"
        wrap="off"
        styles={{ input: { fontFamily: "var(--mantine-font-family-monospace)", whiteSpace: "pre", overflowX: "auto" } }}
        data-field="document"
      />
    </Paper>
  );
}
