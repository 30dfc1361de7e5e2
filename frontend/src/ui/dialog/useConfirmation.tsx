import { TextInput, type TextInputProps } from "@mantine/core";
import { useState, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";

interface Options {
  /** What has to be typed before something dangerous is done, the name of what is changed mostly; nothing without. */
  typed?: string | undefined;
  /** More for its input. */
  typedInput?: TextInputProps;
  /** What the reason is called where it is more than a line of the audit log; false: the change takes none. */
  reasonField?: { label: string; description: string } | false | undefined;
}

/** What is asked for before a change is made: a reason for the audit log and, for what is dangerous, a text to type. */
export function useConfirmation({ typed = "", typedInput, reasonField }: Options): {
  reason: string;
  isGiven: boolean;
  inputs: ReactNode;
} {
  const { t } = useTranslation();
  const [reason, setReason] = useState("");
  const [text, setText] = useState("");
  const inputs = (
    <>
      {reasonField !== false && (
        <TextInput
          label={reasonField?.label ?? t("change.reason")}
          description={reasonField?.description ?? t("change.reason_hint")}
          maxLength={500}
          value={reason}
          onChange={(event) => setReason(event.currentTarget.value)}
        />
      )}
      {typed && (
        <TextInput
          label={t("change.type_name", { name: typed })}
          value={text}
          autoComplete="off"
          spellCheck={false}
          data-confirm=""
          onChange={(event) => setText(event.currentTarget.value)}
          {...typedInput}
        />
      )}
    </>
  );
  return { reason, isGiven: !typed || text === typed, inputs };
}
