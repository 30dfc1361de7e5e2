import { useEffect, useRef, useState } from "react";
import { onProofNeeded } from "@/api/proof";
import { whenOpened } from "@/ui/dialog/whenOpened";

const ProofDialog = whenOpened(async () => (await import("@/app/ProofDialog")).ProofDialog);

/** Asks for password or code again when the API wants a proof that the right person still sits here. */
export function Proof() {
  const [isOpen, setOpen] = useState(false);
  const answer = useRef<((proved: boolean) => void) | null>(null);
  useEffect(
    () =>
      onProofNeeded(
        () =>
          new Promise<boolean>((resolve) => {
            answer.current = resolve;
            setOpen(true);
          }),
      ),
    [],
  );
  const finish = (proved: boolean) => {
    setOpen(false);
    answer.current?.(proved);
    answer.current = null;
  };
  return <ProofDialog opened={isOpen} onProved={() => finish(true)} onCancel={() => finish(false)} />;
}
