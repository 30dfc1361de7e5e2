import { useQuery } from "@tanstack/react-query";
import { meOptions } from "@/api/me";
import { clientAddress, DEFAULT_ADDRESS } from "@/ui/clientLines";

/** The address of this system's metaserver, for clients. */
export function useClientAddress(): string {
  const { data } = useQuery(meOptions());
  return clientAddress(data?.console.metaserver ?? DEFAULT_ADDRESS, window.location.hostname);
}
