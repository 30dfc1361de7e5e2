import type { Me } from "@/api/me";

/** An operator of the team "shop" who may only read, or the user that a test needs. */
export function me(more: Partial<Me> = {}): Me {
  return {
    id: "1",
    username: "ada",
    email: "",
    first_name: "Ada",
    last_name: "",
    language: "",
    role: "operator",
    teams: ["shop"],
    rights: ["read"],
    preferences: {},
    demands_second_factor: false,
    has_password: true,
    has_second_factor: false,
    lacks_second_factor: false,
    proved_recently: true,
    version: "3",
    console: { metaserver: "meta.test:8080", systems: [] },
    ...more,
  } as Me;
}
