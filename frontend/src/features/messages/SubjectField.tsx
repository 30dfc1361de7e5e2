import { Autocomplete } from "@mantine/core";
import { useSubjectNames } from "@/api/subjects";

/** The name of a subject that is there. */
export function SubjectField({
  label,
  value,
  onChange,
}: {
  label: string;
  value: string;
  onChange: (subject: string) => void;
}) {
  const { names } = useSubjectNames(value);
  return (
    <Autocomplete
      label={label}
      data={names}
      // The API has filtered already.
      filter={({ options }) => options}
      value={value}
      onChange={onChange}
      data-field="to_subject"
    />
  );
}
