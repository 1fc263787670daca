//! Aligned rows under a heading.

/// A heading and aligned rows; nothing without rows. A cell that begins with `>` is aligned to the right.
pub fn section(text: &mut String, heading: &str, rows: &[Vec<String>]) {
    if rows.is_empty() {
        return;
    }
    *text += &format!("\n{heading}\n");
    *text += &aligned(rows);
}

/// Rows whose columns are as wide as they have to be.
pub fn aligned(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| bare(cell).chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, &width)| match cell.strip_prefix('>') {
                Some(cell) => format!("{cell:>width$}"),
                None => format!("{cell:<width$}"),
            })
            .collect();
        format!("  {}", cells.join("  ")).trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn bare(cell: &str) -> &str {
    cell.strip_prefix('>').unwrap_or(cell)
}

/// All that is printed of an answer: whatever is in it, lines end and nothing else commands the terminal.
pub fn lines(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { '?' } else { c }).collect()
}

/// Names are what programs make them: control characters must not reach the terminal, and lines not end.
pub fn printable(name: &str) -> String {
    name.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
