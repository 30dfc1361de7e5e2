import "@mantine/notifications/styles.css";
import { useMediaQuery } from "@mantine/hooks";
import { Notifications } from "@mantine/notifications";

/** From this width on the middle of the header is empty. */
const HEADER_HAS_ROOM = "(min-width: 1100px)";

/**
 * What the store holds, shown where no button is: in the middle of the header; in a narrow window at its lower edge, or
 * at the upper one while a drawer or a dialog is open. Clicks go through to what lies below, so a notification has no
 * button of its own and closes by itself.
 */
export function NotificationList() {
  const isWide = useMediaQuery(HEADER_HAS_ROOM, true, { getInitialValueInEffect: false });
  return (
    <Notifications position={isWide ? "top-center" : "bottom-center"} containerWidth={360} className="notifications" />
  );
}
