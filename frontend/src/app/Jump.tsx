import { Spotlight, type SpotlightActionData } from "@mantine/spotlight";
import { IconSearch } from "@tabler/icons-react";
import { useNavigate } from "@tanstack/react-router";
import { useTranslation } from "react-i18next";
import { useMay, type Right } from "@/api/me";
import { pages } from "@/app/pages";

/** Ctrl-K: type where to go. */
export function Jump() {
  const { t } = useTranslation();
  const may = useMay();
  const navigate = useNavigate();
  const actions: SpotlightActionData[] = pages.flatMap(({ path, nav }) => {
    if (!nav || (nav.right && !may(nav.right as Right))) return [];
    const Icon = nav.icon;
    return [
      {
        id: path,
        label: t(`nav.${nav.label}`),
        leftSection: <Icon size={18} aria-hidden />,
        onClick: () => void navigate({ to: path }),
      },
    ];
  });
  return (
    <Spotlight
      actions={actions}
      shortcut={["mod + K"]}
      nothingFound={t("jump.nothing")}
      highlightQuery
      scrollable
      maxHeight={420}
      searchProps={{
        leftSection: <IconSearch size={18} aria-hidden />,
        placeholder: t("jump.placeholder"),
        "aria-label": t("jump.placeholder"),
      }}
    />
  );
}
