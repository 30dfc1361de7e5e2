import { ActionIcon, TextInput, type TextInputProps } from "@mantine/core";
import { IconCalendar } from "@tabler/icons-react";
import { useRef, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { fromField, parseField, toField } from "@/format/times";
import type { Direction } from "@/ui/dates/presets";
import { useZone } from "@/ui/preferences";
import { whenOpened } from "@/ui/dialog/whenOpened";

// The library of dates is a chunk of its own: no first load waits for it.
const load = async () => (await import("@/ui/dates/Chooser")).Chooser;
const Chooser = whenOpened(load);
/** A failure is reported when the calendar is opened. */
const preload = () => void load().catch(() => undefined);

interface Props extends Omit<TextInputProps, "value" | "onChange" | "type"> {
  /** RFC 3339 in UTC; null: none. */
  value: string | null;
  /** Null while what is typed is no instant. */
  onChange: (at: string | null) => void;
  direction: Direction;
}

/**
 * An instant, typed as 2026-12-01 10:11 in the zone that is shown, or chosen: often wanted ones, or a day of a month.
 */
export function InstantInput({ value, onChange, direction, ...input }: Props) {
  const { t } = useTranslation();
  const zone = useZone();
  const [isOpen, setOpen] = useState(false);
  const [typed, setTyped] = useState(value === null ? "" : toField(value, zone));
  const [seen, setSeen] = useState({ value, zone });
  const [isLeft, setLeft] = useState(false);
  const [button, setButton] = useState<HTMLButtonElement | null>(null);
  const field = useRef<HTMLInputElement>(null);
  // The value may change by itself: the back button, a link, "clear". What comes back of our own typing is no such
  // change.
  if (value !== seen.value || zone !== seen.zone) {
    setSeen({ value, zone });
    if (fromField(typed, zone) !== value) setTyped(value === null ? "" : toField(value, zone));
  }
  const type = (text: string) => {
    setTyped(text);
    const at = fromField(text, zone);
    if (at !== value) onChange(at);
  };
  const choose = (at: string) => {
    // Not by way of the text: it has no milliseconds.
    setTyped(toField(at, zone));
    onChange(at);
    setOpen(false);
    field.current?.focus();
  };
  const meant = parseField(typed, zone);
  const error = isLeft && typed !== "" && meant.at === null ? t(`dates.${meant.why}`) : input.error;
  const name = input["aria-label"] ?? (typeof input.label === "string" ? input.label : "");
  return (
    <>
      <TextInput
        {...input}
        ref={field}
        placeholder={input.placeholder ?? t("dates.placeholder")}
        value={typed}
        autoComplete="off"
        spellCheck={false}
        error={error}
        onChange={(event) => type(event.currentTarget.value)}
        onFocus={() => setLeft(false)}
        onBlur={() => {
          setLeft(true);
          if (value !== null && typed !== "") setTyped(toField(value, zone));
        }}
        rightSection={
          <ActionIcon
            ref={setButton}
            variant="subtle"
            color="gray"
            aria-label={t("dates.choose", { name })}
            aria-expanded={isOpen}
            aria-haspopup="dialog"
            onClick={() => setOpen(!isOpen)}
            onPointerEnter={preload}
            onFocus={preload}
          >
            <IconCalendar size={16} aria-hidden />
          </ActionIcon>
        }
      />
      <Chooser
        opened={isOpen}
        onChange={setOpen}
        target={button}
        label={name}
        direction={direction}
        value={value}
        onChoose={choose}
      />
    </>
  );
}
