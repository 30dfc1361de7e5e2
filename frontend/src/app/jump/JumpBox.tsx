import { Loader, Modal, Text, TextInput, UnstyledButton } from "@mantine/core";
import { useDebouncedValue } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useId, useRef, useState, type KeyboardEvent } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { api, must } from "@/api/client";
import "@/app/jump/jump.css";
import { fits } from "@/app/jump/places";
import { parseVerb } from "@/app/jump/verbs";
import { useEntries, type Entry, type Section } from "@/app/jump/useEntries";
import { ProblemAlert } from "@/ui/page/ProblemAlert";

const TYPING_MS = 150;
/** The API's limit of what is looked for. */
const TEXT_CHARS_MAX = 200;

/** Ctrl-K: type where to go, or what to do. */
export function JumpBox({ opened, onClose }: { opened: boolean; onClose: () => void }) {
  const { t } = useTranslation();
  return (
    <Modal.Root opened={opened} onClose={onClose} size={620} yOffset="10dvh">
      <Modal.Overlay />
      <Modal.Content aria-label={t("jump.open")}>
        <Modal.Body p={0}>{opened && <Search onClose={onClose} />}</Modal.Body>
      </Modal.Content>
    </Modal.Root>
  );
}

/** What the API finds for a text once typing pauses; a request whose answer is no longer wanted is aborted. */
function usePlaces(text: string) {
  const [query] = useDebouncedValue(text.trim(), TYPING_MS);
  const found = useQuery({
    queryKey: ["jump", query],
    queryFn: ({ signal }) => must(api.GET("/api/v1/jump/", { params: { query: { q: query } }, signal })),
    enabled: query !== "",
    placeholderData: keepPreviousData,
    retry: false,
  });
  const isAsking = text.trim() !== query || found.isFetching;
  const isWanted = text.trim() !== "";
  // While the answer is on its way, of the last one only what fits the text of now.
  const places = (isWanted ? (found.data?.results ?? []) : []).filter((place) => !isAsking || fits(place.name, text));
  return {
    places,
    unreachable: isWanted && !isAsking ? Object.entries(found.data?.unreachable ?? {}) : [],
    isAsking: isWanted && isAsking,
    error: isWanted ? found.error : null,
    refetch: found.refetch,
  };
}

function Search({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation();
  const [text, setText] = useState("");
  const [chosen, setChosen] = useState<string | null>(null);
  const listId = useId();
  const field = useRef<HTMLInputElement>(null);
  // At once, and not when the dialog has faded in: users type right after the shortcut.
  useEffect(() => field.current?.focus(), []);
  const { verb, rest, isGuess } = parseVerb(text, ({ id }) => t(`jump.word.${id}`));
  const { places, unreachable, isAsking, error, refetch } = usePlaces(isGuess ? text : rest);
  // A verb with a typing error may be the beginning of a name: both are looked for.
  const guessed = usePlaces(isGuess ? rest : "");
  const isWaiting = isAsking || guessed.isAsking;
  const sections = useEntries(text, { verb, isGuess }, places, guessed.places);
  const lines = sections.flatMap(({ id, entries }) => entries.map((entry) => ({ key: `${id} ${entry.id}`, entry })));
  const at = Math.max(
    0,
    lines.findIndex(({ key }) => key === chosen),
  );
  const active = lines[at];
  const optionId = (key: string) => `${listId}-${key.replaceAll(/\s/g, "_")}`;
  const activeId = active && optionId(active.key);
  useEffect(() => {
    if (activeId) document.getElementById(activeId)?.scrollIntoView({ block: "nearest" });
  }, [activeId]);
  const take = (entry: Entry) => {
    onClose();
    entry.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    // Enter may end the writing of a Chinese word.
    if (event.nativeEvent.isComposing) return;
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0) setChosen(lines.at((at + step) % lines.length)?.key ?? null);
    else if (event.key === "Enter" && active) take(active.entry);
    else return;
    event.preventDefault();
  };
  return (
    <>
      <TextInput
        ref={field}
        variant="unstyled"
        size="lg"
        px="sm"
        data-autofocus
        role="combobox"
        aria-label={t("jump.placeholder")}
        aria-expanded
        aria-controls={listId}
        aria-activedescendant={activeId}
        aria-autocomplete="list"
        placeholder={t("jump.placeholder")}
        maxLength={TEXT_CHARS_MAX}
        spellCheck={false}
        autoComplete="off"
        leftSection={<IconSearch size={18} aria-hidden />}
        rightSection={isWaiting ? <Loader size="xs" aria-hidden /> : null}
        value={text}
        onChange={(event) => {
          setText(event.currentTarget.value);
          setChosen(null);
        }}
        onKeyDown={onKeyDown}
      />
      <div className="jump-list" id={listId} role="listbox" aria-label={t("jump.open")}>
        {sections.map((section) => (
          <Lines
            key={section.id}
            section={section}
            activeId={activeId}
            optionId={optionId}
            onPoint={setChosen}
            onTake={take}
          />
        ))}
      </div>
      <div className="jump-said" role="status">
        {lines.length === 0 && !isWaiting && !error && <Text c="dimmed">{t("jump.nothing")}</Text>}
        {lines.length === 0 && isWaiting && <Text c="dimmed">{t("jump.asking")}</Text>}
        {unreachable.map(([what, why]) => (
          <Text key={what} size="sm" c="dimmed" className="break" data-unreachable={what}>
            {t("jump.unreachable", { what, why })}
          </Text>
        ))}
        {error && <ProblemAlert error={error} onRetry={() => void refetch()} />}
      </div>
    </>
  );
}

function Lines({
  section,
  activeId,
  optionId,
  onPoint,
  onTake,
}: {
  section: Section;
  activeId: string | undefined;
  optionId: (key: string) => string;
  onPoint: (key: string) => void;
  onTake: (entry: Entry) => void;
}) {
  const { t } = useTranslation();
  const labelId = useId();
  return (
    <div role="group" aria-labelledby={labelId}>
      <Text id={labelId} size="xs" c="dimmed" fw={600} px="xs" pt="xs" pb={4} role="presentation">
        {t(`jump.section.${section.id}`)}
      </Text>
      {section.entries.map((entry) => {
        const key = `${section.id} ${entry.id}`;
        const Icon = entry.icon;
        return (
          <UnstyledButton
            key={key}
            id={optionId(key)}
            role="option"
            aria-selected={optionId(key) === activeId}
            tabIndex={-1}
            className="jump-line"
            // The caret stays in the field.
            onMouseDown={(event) => event.preventDefault()}
            onMouseMove={() => onPoint(key)}
            onClick={() => onTake(entry)}
            data-jump={entry.id}
          >
            <Icon size={18} stroke={1.6} aria-hidden />
            <span className="break">{entry.label}</span>
            {entry.hint && (
              <Text span size="xs" c="dimmed" className="jump-hint">
                {entry.hint}
              </Text>
            )}
          </UnstyledButton>
        );
      })}
    </div>
  );
}
