import type { Favourites } from "@/features/subjects/useFavourites";
import { useTranslation } from "@/i18n/useTranslation";

/** Makes a subject one of the user's favourites, which the list can be limited to, or no longer. */
export function Favourite({ subject, favourites }: { subject: string; favourites: Favourites }) {
  const { t } = useTranslation("subjects");
  const isFavourite = favourites.chosen.has(subject);
  return (
    <button
      type="button"
      className="star"
      aria-label={t(isFavourite ? "favourite.remove" : "favourite.add", { name: subject })}
      aria-pressed={isFavourite}
      disabled={favourites.pending === subject}
      data-hint={t("column.favourite")}
      data-favourite={isFavourite}
      onClick={() => favourites.toggle(subject)}
    >
      <span aria-hidden>{isFavourite ? "★" : "☆"}</span>
    </button>
  );
}
