/**
 * Sensitive requests take a password or code given recently. The API says so with 403 `access.reauthenticate`; the
 * component with the dialog registers here, and the request is sent again once the proof was given.
 */
type Ask = () => Promise<boolean>;

let ask: Ask | undefined;
let asking: Promise<boolean> | undefined;

export function onProofNeeded(dialog: Ask): () => void {
  ask = dialog;
  return () => {
    if (ask === dialog) ask = undefined;
  };
}

/** Ask the user, once however many requests wait for it; false when they would not. */
export function askForProof(): Promise<boolean> {
  asking ??= (ask?.() ?? Promise.resolve(false)).finally(() => {
    asking = undefined;
  });
  return asking;
}
