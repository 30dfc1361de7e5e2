import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useTranslation } from "@/i18n/useTranslation";
import { meOptions } from "@/api/me";
import { change, NOW } from "@/api/requests";
import { subjectsKey } from "@/features/subjects/queries";
import { IconButton } from "@/ui/menu/buttons";

/** Makes a subject one of the user's favourites, which the list can be limited to, or no longer. */
export function Favourite({ subject }: { subject: string }) {
  const { t } = useTranslation("subjects");
  const client = useQueryClient();
  const { data: me } = useQuery(meOptions());
  const favourites = me?.preferences.favourite_subjects ?? [];
  const isFavourite = favourites.includes(subject);
  const toggle = useMutation({
    mutationFn: () => {
      const others = favourites.filter((name) => name !== subject);
      const chosen = isFavourite ? others : [...others, subject];
      return change("patch", "/api/v1/me/", NOW, { body: { preferences: { favourite_subjects: chosen } } });
    },
    onSuccess: async () => {
      await client.invalidateQueries(meOptions());
      await client.invalidateQueries({ queryKey: subjectsKey });
    },
  });
  if (!me) return null;
  return (
    <IconButton
      size="sm"
      variant="subtle"
      color={isFavourite ? "yellow" : "gray"}
      icon={isFavourite ? Chosen : NotChosen}
      hint={t("column.favourite")}
      label={t(isFavourite ? "favourite.remove" : "favourite.add", { name: subject })}
      aria-pressed={isFavourite}
      loading={toggle.isPending}
      data-favourite={isFavourite}
      onClick={() => toggle.mutate()}
    />
  );
}

/** A text weighs less than a picture; its name is the button's. */
function Chosen() {
  return <span aria-hidden>★</span>;
}

function NotChosen() {
  return <span aria-hidden>☆</span>;
}
