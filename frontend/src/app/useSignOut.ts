import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { signOut } from "@/api/session";

/** End the session; nothing that was read in it stays. */
export function useSignOut() {
  const client = useQueryClient();
  const navigate = useNavigate();
  return useMutation({
    mutationFn: signOut,
    onSuccess: async () => {
      await navigate({ to: "/sign-in" });
      // Not what the sign-in page is reading: its request would be cancelled, and the page would never get it.
      client.removeQueries({ type: "inactive" });
    },
  });
}
