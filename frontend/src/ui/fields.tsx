import { useTranslation } from "@/i18n/useTranslation";
import { isWellFormed, limitsOf, type FieldOf, type RequestName } from "@/api/limits";

type Named<Values, Type> = { [Name in keyof Values]: Values[Name] extends Type ? Name : never }[keyof Values] & string;
interface Typed {
  currentTarget: { value: string };
}
interface Ticked {
  currentTarget: { checked: boolean };
}

/** What is wrong with a text that does not have the field's pattern. */
function Malformed({ field }: { field: string }) {
  const { t } = useTranslation();
  return t(`malformed.${field}`, { defaultValue: t("malformed.other") });
}

/**
 * Props of the inputs of a form, by the name of the value: `<TextInput {...fields.text("name")} />`. With a request's
 * name its limits come from the API; `field` is what a value is called there, where that differs.
 */
export function fieldsOf<Values extends object, Name extends RequestName = never>(
  values: Values,
  set: (changes: Partial<Values>) => void,
  request?: Name,
) {
  const limits = (field: string | undefined) =>
    request === undefined || field === undefined ? {} : limitsOf(request, field as FieldOf<Name>);
  const change = (name: keyof Values, value: unknown) => set({ [name]: value } as Partial<Values>);
  return {
    /** Texts and native choices. */
    text: <Key extends Named<Values, string | undefined>>(name: Key, field: FieldOf<Name> | Key = name) => {
      const value = (values[name] ?? "") as string;
      return {
        value,
        maxLength: limits(field).maxLength,
        onChange: ({ currentTarget: { value } }: Typed) => change(name, value),
        // An error of the page's own stands as long as the text has the pattern.
        ...(!isWellFormed(limits(field), value) && { error: <Malformed field={field} /> }),
      };
    },
    /** Numbers; "" while there is none. */
    number: <Key extends Named<Values, number | "">>(name: Key, field: FieldOf<Name> | Key = name) => ({
      value: values[name] as number | "",
      min: limits(field).minimum,
      max: limits(field).maximum,
      onChange: (value: string | number) => change(name, typeof value === "number" ? value : ""),
    }),
    /** Whatever says its value itself: tags, segments, switches between several. */
    chosen: <Key extends keyof Values>(name: Key) => ({
      value: values[name],
      onChange: (value: Values[Key]) => change(name, value),
    }),
    checked: (name: Named<Values, boolean>) => ({
      checked: values[name] as boolean,
      onChange: ({ currentTarget: { checked } }: Ticked) => change(name, checked),
    }),
  };
}
