//! A generated C source tree: real work for a compiler, the same bytes on every machine.

use std::{fmt::Write as _, fs, path::Path};

use anyhow::{Context, Result};

/// Functions in one file; sized so that one file takes a few tenths of a second at 10⁹ instructions a second.
const FUNCTIONS: u32 = 2;

const MAKEFILE: &str = "\
CC = gcc
OBJECTS := $(patsubst %.c,%.o,$(sort $(wildcard unit_*.c)))

program: $(OBJECTS)
\t$(CC) -o $@ main.c $(OBJECTS)

%.o: %.c tree.h
\t$(CC) -O2 -c -o $@ $<

clean:
\trm -f program $(OBJECTS)

.PHONY: clean
";

/// `tree DIR FILES` on the command line.
pub fn command(dir: &str, files: &str) -> Result<()> {
    let files = files.parse().with_context(|| format!("tree: \"{files}\" is no number of files"))?;
    generate(Path::new(dir), files)
}

/// Writes a tree of `files` source files, with a Makefile, into `dir`.
pub fn generate(dir: &Path, files: u32) -> Result<()> {
    let write = |name: &str, text: &str| {
        let path = dir.join(name);
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    };
    fs::create_dir_all(dir).with_context(|| format!("create {}", dir.display()))?;
    write("Makefile", MAKEFILE)?;
    write("tree.h", &header(files))?;
    write("main.c", &main_unit(files))?;
    (0..files).try_for_each(|n| write(&format!("unit_{n:03}.c"), &unit(n)))
}

fn header(files: u32) -> String {
    let mut text = String::from("#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\n");
    for n in 0..files {
        let _ = writeln!(text, "unsigned long unit_{n:03}(const unsigned char *data, unsigned long size);");
    }
    text
}

fn main_unit(files: u32) -> String {
    let mut text = String::from("#include \"tree.h\"\n\nint main(void)\n{\n\tunsigned long sum = 0;\n\n");
    for n in 0..files {
        let _ = writeln!(text, "\tsum += unit_{n:03}((const unsigned char *)\"{n}\", {});", n % 3 + 1);
    }
    text.push_str("\tprintf(\"%lu\\n\", sum);\n\treturn 0;\n}\n");
    text
}

fn unit(n: u32) -> String {
    let mut text = String::from("#include \"tree.h\"\n");
    for f in 0..FUNCTIONS {
        let (prime, shift) = (7919 + 2 * (n * FUNCTIONS + f), 3 + (n + f) % 11);
        let _ = write!(
            text,
            "
static unsigned long step_{f}(const unsigned char *data, unsigned long size, unsigned long seed)
{{
	unsigned long table[{entries}], i, j;

	for (i = 0; i < {entries}; i++)
		table[i] = seed * {prime} + (i << {shift});
	for (i = 0; i < size; i++) {{
		switch (data[i] & 7) {{
		case 0: table[i % {entries}] += data[i] * {prime}; break;
		case 1: table[(i + 1) % {entries}] ^= seed >> {shift}; break;
		case 2: seed = seed * 31 + table[data[i] % {entries}]; break;
		case 3: for (j = 0; j < i % 5; j++) seed += table[j]; break;
		case 4: seed ^= (unsigned long)data[i] << {shift}; break;
		default: table[i % {entries}] = seed; seed += i;
		}}
	}}
	for (i = 1; i < {entries}; i++)
		if (table[i] < table[i - 1]) {{
			unsigned long held = table[i];

			for (j = i; j > 0 && table[j - 1] > held; j--)
				table[j] = table[j - 1];
			table[j] = held;
		}}
	return seed ^ table[seed % {entries}];
}}
",
            entries = 16 + f
        );
    }
    let _ = write!(
        text,
        "\nunsigned long unit_{n:03}(const unsigned char *data, unsigned long size)\n{{\n\tunsigned long sum = {n};\n\n"
    );
    for f in 0..FUNCTIONS {
        let _ = writeln!(text, "\tsum = step_{f}(data, size, sum);");
    }
    text.push_str("\treturn sum;\n}\n");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_unit_is_declared_and_called() {
        let (header, main) = (header(3), main_unit(3));
        for n in 0..3 {
            let name = format!("unit_{n:03}(");
            assert!(header.contains(&name) && main.contains(&name) && unit(n).contains(&name), "{name}");
        }
    }

    #[test]
    fn refuses_a_number_that_is_none() {
        let error = command("/nonexistent", "many").expect_err("must fail");
        insta::assert_snapshot!(format!("{error}"), @r#"tree: "many" is no number of files"#);
    }
}
