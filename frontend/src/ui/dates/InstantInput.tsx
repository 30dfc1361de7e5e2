import "@/ui/dates/dates.css";
import { ActionIcon, Button, Popover, Skeleton, TextInput, type TextInputProps } from "@mantine/core";
import { IconCalendar } from "@tabler/icons-react";
import { lazy, Suspense, useRef, useState } from "react";
import { useTranslation } from "react-i18next";
import { fromField, toField } from "@/format/times";
import { PRESETS, type Direction } from "@/ui/dates/presets";
import { useZone } from "@/ui/preferences";

// The library of dates is a chunk of its own: no first load waits for it.
const Calendar = lazy(() => import("@/ui/dates/Calendar"));
const CALENDAR_PX = 268;
/** The library's dialogs leave Escape to who has this attribute. */
const OWN_ESCAPE = { "data-mantine-stop-propagation": "true" };

interface Props extends Omit<TextInputProps, "value" | "onChange" | "type"> {
  /** RFC 3339 in UTC; null: none. */
  value: string | null;
  /** Null while what is typed is no instant. */
  onChange: (at: string | null) => void;
  direction: Direction;
}

/** An instant, typed as 2026-12-01 10:11 in the zone that is shown, or chosen: often wanted ones, or a day of a month. */
export function InstantInput({ value, onChange, direction, ...input }: Props) {
  const { t } = useTranslation();
  const zone = useZone();
  const [isOpen, setOpen] = useState(false);
  const [typed, setTyped] = useState(value === null ? "" : toField(value, zone));
  const [seen, setSeen] = useState({ value, zone });
  const [isLeft, setLeft] = useState(false);
  const field = useRef<HTMLInputElement>(null);
  // The value may change by itself: the back button, a link, "clear". What comes back of our own typing is no such change.
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
    type(toField(at, zone));
    setOpen(false);
    field.current?.focus();
  };
  const isWrong = isLeft && typed !== "" && fromField(typed, zone) === null;
  const name = input["aria-label"] ?? (typeof input.label === "string" ? input.label : "");
  return (
    <Popover opened={isOpen} onChange={setOpen} position="bottom-end" trapFocus returnFocus withRoles={false}>
      <Popover.Target>
        <TextInput
          {...input}
          ref={field}
          placeholder={input.placeholder ?? "2026-12-01 10:11"}
          value={typed}
          autoComplete="off"
          spellCheck={false}
          error={isWrong ? t("dates.format") : input.error}
          onChange={(event) => type(event.currentTarget.value)}
          onFocus={() => setLeft(false)}
          onBlur={() => {
            setLeft(true);
            if (value !== null && typed !== "") setTyped(toField(value, zone));
          }}
          rightSection={
            <ActionIcon
              variant="subtle"
              color="gray"
              aria-label={t("dates.choose", { name })}
              aria-expanded={isOpen}
              aria-haspopup="dialog"
              onClick={() => setOpen(!isOpen)}
            >
              <IconCalendar size={16} aria-hidden />
            </ActionIcon>
          }
        />
      </Popover.Target>
      <Popover.Dropdown role="dialog" aria-label={name} {...OWN_ESCAPE}>
        <div className="dates">
          <div className="dates-presets">
            {Object.entries(PRESETS[direction]).map(([key, instant]) => (
              <Button
                key={key}
                size="compact-sm"
                variant="default"
                data-preset={key}
                {...OWN_ESCAPE}
                onClick={() => choose(instant(Date.now(), zone))}
              >
                {t(`dates.preset.${key}`)}
              </Button>
            ))}
          </div>
          <Suspense fallback={<Skeleton w={CALENDAR_PX} h={CALENDAR_PX} />}>
            <Calendar
              day={value === null ? null : toField(value, zone).slice(0, 10)}
              onPick={(day) => {
                const time =
                  value === null ? (direction === "past" ? "00:00" : "09:00") : toField(value, zone).slice(11);
                choose(fromField(`${day} ${time}`, zone) ?? "");
              }}
            />
          </Suspense>
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}
