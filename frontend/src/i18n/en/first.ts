import type { Texts } from "@/i18n";
import common from "@/i18n/en/common.json";
import overview from "@/i18n/en/overview.json";
import sign_in from "@/i18n/en/sign_in.json";

/** The English texts of the first load, a namespace a file: common.json is `useTranslation()`. */
export const texts: Texts = { common, overview, sign_in };
