import "@mantine/notifications/styles.css";
import { Notifications } from "@mantine/notifications";

/** What the store holds, shown. */
export function NotificationList() {
  return <Notifications position="top-right" />;
}
