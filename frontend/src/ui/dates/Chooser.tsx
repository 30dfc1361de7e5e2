import "@/ui/dates/dates.css";
import { Button, Popover } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { dateTime, timeOn } from "@/format/times";
import { Calendar } from "@/ui/dates/Calendar";
import { PRESETS, type Direction } from "@/ui/dates/presets";
import { PopoverAnchor } from "@/ui/menu/PopoverAnchor";
import { useZone } from "@/ui/preferences";

/** The library's dialogs leave Escape to who has this attribute. */
const OWN_ESCAPE = { "data-mantine-stop-propagation": "true" };

/** An instant is chosen: often wanted ones, or a day of a month. */
export function Chooser({
  opened,
  onChange,
  target,
  label,
  direction,
  value,
  onChoose,
}: {
  opened: boolean;
  onChange: (opened: boolean) => void;
  /** What it belongs to. */
  target: HTMLElement | null;
  label: string;
  direction: Direction;
  value: string | null;
  onChoose: (at: string) => void;
}) {
  const { t } = useTranslation();
  const zone = useZone();
  return (
    <Popover opened={opened} onChange={onChange} position="bottom-end" trapFocus returnFocus withRoles={false}>
      <Popover.Target>
        <PopoverAnchor element={target} />
      </Popover.Target>
      <Popover.Dropdown role="dialog" aria-label={label} {...OWN_ESCAPE}>
        <div className="dates">
          <div className="dates-presets">
            {Object.entries(PRESETS[direction]).map(([key, instant]) => (
              <Button
                key={key}
                size="compact-sm"
                variant="default"
                data-preset={key}
                {...OWN_ESCAPE}
                onClick={() => onChoose(instant(Date.now(), zone))}
              >
                {t(`dates.preset.${key}`)}
              </Button>
            ))}
          </div>
          <Calendar
            day={value === null ? null : dateTime(value, zone).slice(0, 10)}
            onPick={(day) => {
              const time =
                value === null ? (direction === "past" ? "00:00" : "09:00") : dateTime(value, zone).slice(11);
              onChoose(timeOn(day, time, zone));
            }}
          />
        </div>
      </Popover.Dropdown>
    </Popover>
  );
}
