import { LiveFeed } from "@/live/feed";
import { RowFeed, ROWS_PATH } from "@/live/rows";

const feeds = new Map<string, LiveFeed>();

/** The feed of an address, shared by all that listen to it. */
export function feedAt(path: string): LiveFeed {
  let feed = feeds.get(path);
  if (!feed) {
    feed = path === ROWS_PATH ? new RowFeed() : new LiveFeed(path);
    feeds.set(path, feed);
  }
  return feed;
}
