import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { signOut } from "@/api/session";

/** Queries of the sign-in page. They need no session. */
const SIGN_IN = "sign-in";

/** End the session; nothing that was read in it stays. */
export function useSignOut() {
  const client = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: async () => {
      // Requests that are under way would be answered with 401.
      await client.cancelQueries({ predicate: ({ queryKey }) => queryKey[0] !== SIGN_IN });
      await signOut();
    },
    // The session continues, and so does what was canceled.
    onError: () => client.invalidateQueries(),
    onSuccess: async () => {
      await navigate({ to: "/sign-in" });
      // Not what the sign-in page is reading: its request would be cancelled, and the page would never get it.
      client.removeQueries({ type: "inactive" });
    },
  });
}
