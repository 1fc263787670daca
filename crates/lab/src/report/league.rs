//! The league table at the head of a report.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::names::{self, figure, times};
use crate::bench::{
    league::Row,
    table::{Cell, Table, tables},
};

/// Who came in where, who did not, and what ran.
pub(super) fn front(rows: &[Row], mishaps: &[String], versions: &BTreeMap<&str, Vec<&str>>) -> Markup {
    html! {
        h2 { "League" }
        p {
            "Each figure, and how many times worse it is than the best that any scheduler has on the machine without load. The best of a race is marked. “Best other to appease” tells how many "
            "times worse than appease the best of the others is; below one, it is better."
        }
        @for table in tables(rows) { (whole(&table)) }
        h3 { "Who did not come in" }
        @if mishaps.is_empty() { p { "Nobody was ejected, stalled or failed." } } @else { ul { @for one in mishaps { li { (one) } } } }
        h3 { "Versions" }
        ul { @for (name, versions) in versions { li { (names::scheduler(name)) ": " (versions.join("; ")) } } }
    }
}

fn whole(table: &Table) -> Markup {
    html! {
        @if let Some(title) = &table.title { h3 { (title) } }
        div.scroll { table {
            thead { tr { th.text {} @for head in &table.heads { th { (head) } } } }
            tbody { @for line in &table.lines { tr {
                td.text { (line.head) }
                @for one in &line.cells { td { (cell(one)) } }
            } } }
        } }
    }
}

fn cell(cell: &Cell) -> Markup {
    html! { @match cell {
        Cell::Unloaded(value) => (value.map_or_else(|| "–".into(), figure)),
        Cell::Figure { value, is_best, to_unloaded } => {
            @if *is_best { b { (figure(*value)) } } @else { (figure(*value)) }
            @if to_unloaded.is_some() { br; small { (times(*to_unloaded)) } }
        },
        Cell::Missing(why) => small { (why) },
        Cell::ToUnloaded(ratio) => (times(*ratio)),
        Cell::BestOther(None) => "–",
        Cell::BestOther(Some((best, ratio))) => span class=(if *ratio >= 1.0 { "good" } else { "bad" }) title=(best) { (times(Some(*ratio))) },
    } }
}
