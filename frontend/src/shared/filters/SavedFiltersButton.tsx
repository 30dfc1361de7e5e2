import { IconBookmarks } from "@tabler/icons-react";
import { useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { useMayOn } from "@/api/owner";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { IconButton } from "@/ui/menu/buttons";

const SavedFilters = whenDrawn(
  async () => (await import("@/shared/filters/SavedFilters")).SavedFilters,
  ["saved_filters"],
);

interface Props {
  subject: string;
  /** What is in the field, which can be saved. */
  current: string;
  onChoose: (filter: string) => void;
}

/** Opens the saved filters of a subject, for those who can read its messages. */
export function SavedFiltersButton({ subject, ...rest }: Props) {
  return subject === "" ? null : <Opener subject={subject} {...rest} />;
}

function Opener({ subject, current, onChoose }: Props) {
  const { t } = useTranslation();
  const mayOn = useMayOn(subject);
  const [isOpen, setOpen] = useState(false);
  if (!mayOn("read_messages")) return null;
  return (
    <>
      <IconButton icon={IconBookmarks} label={t("filter.saved")} onClick={() => setOpen(true)} />
      {isOpen && (
        <SavedFilters
          subject={subject}
          current={current.trim()}
          onChoose={(filter) => {
            setOpen(false);
            onChoose(filter);
          }}
          onClose={() => setOpen(false)}
        />
      )}
    </>
  );
}
