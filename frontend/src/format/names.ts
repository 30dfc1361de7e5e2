import { listFormat } from "@/format/intl";

/** Words as a sentence lists them: "the body and tags", 消息体和标签. Pure. */
export function listed(words: readonly string[], language: string): string {
  return listFormat(language, { type: "conjunction" }).format(words);
}

/** A person's name as it is written: Chinese names begin with the family name, without a blank. Pure. */
export function personName({ first_name = "", last_name = "" }: { first_name?: string; last_name?: string }): string {
  const isChinese = /^\p{Script=Han}*$/u.test(first_name + last_name);
  return isChinese ? last_name + first_name : [first_name, last_name].filter(Boolean).join(" ");
}
