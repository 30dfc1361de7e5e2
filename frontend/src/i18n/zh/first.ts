import type { Texts } from "@/i18n";
import common from "@/i18n/zh/common.json";
import overview from "@/i18n/zh/overview.json";
import sign_in from "@/i18n/zh/sign_in.json";

/** The Chinese texts of the first load, a namespace a file: common.json is `useTranslation()`. */
export const texts: Texts = { common, overview, sign_in };
