import { Button, Kbd } from "@mantine/core";
import { useDisclosure, useHotkeys } from "@mantine/hooks";
import { IconSearch } from "@tabler/icons-react";
import { lazy, Suspense, useEffect, useState } from "react";
import { useTranslation } from "react-i18next";

const load = () => import("@/app/jump/JumpBox");
const JumpBox = lazy(load);

/** Browsers that know no idle time get it after this. */
const PRELOAD_MS = 1_500;

/** Ctrl-K and its button. The box itself is no part of the first load: it comes when the browser has time, or when it is wanted. */
export function Jump() {
  const { t } = useTranslation();
  const [isOpen, { open, close, toggle }] = useDisclosure();
  const [wasOpen, setWasOpen] = useState(false);
  if (isOpen && !wasOpen) setWasOpen(true);
  // In fields too: whoever types there may want to leave.
  useHotkeys([["mod+K", toggle]], []);
  useEffect(() => {
    // A failure is told when the box is wanted.
    const preload = () => void load().catch(() => undefined);
    if ("requestIdleCallback" in window) {
      const handle = window.requestIdleCallback(preload);
      return () => window.cancelIdleCallback(handle);
    }
    const handle = setTimeout(preload, PRELOAD_MS);
    return () => clearTimeout(handle);
  }, []);
  return (
    <>
      <Button
        variant="default"
        size="sm"
        leftSection={<IconSearch size={16} aria-hidden />}
        rightSection={<Kbd visibleFrom="sm">Ctrl K</Kbd>}
        onClick={open}
      >
        {t("jump.open")}
      </Button>
      {wasOpen && (
        <Suspense fallback={null}>
          <JumpBox opened={isOpen} onClose={close} />
        </Suspense>
      )}
    </>
  );
}
