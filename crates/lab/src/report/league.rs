//! The league table at the head of a report.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::names::{self, figure, times};
use crate::bench::league::Row;

/// Who came in where, who did not, and what ran.
pub(super) fn front(rows: &[Row], mishaps: &[String], versions: &BTreeMap<String, String>) -> Markup {
    let schedulers: Vec<&str> =
        rows.first().map(|row| row.entries.iter().map(|entry| entry.scheduler.as_str()).collect()).unwrap_or_default();
    html! {
        h2 { "League" }
        p {
            "Each figure, and how many times worse it is than EEVDF’s on the machine without load. The best of a row is marked. The last column tells how many "
            "times worse than appease the best of the others is; below one, it is better."
        }
        div.scroll { table {
            thead { tr {
                th.text { "race" } th { "unloaded" }
                @for scheduler in &schedulers { th { (names::scheduler(scheduler)) } }
                th { "best other to appease" }
            } }
            tbody { @for row in rows { tr {
                td.text title=(row.run) { (row.title) }
                td { (row.unloaded.map_or_else(|| "–".into(), figure)) }
                @for scheduler in &schedulers { td { (cell(row, scheduler)) } }
                td { @match row.best_other_to_ours() {
                    Some((best, ratio)) => { span class=(if ratio >= 1.0 { "good" } else { "bad" }) title=(best) { (times(Some(ratio))) } },
                    None => "–",
                } }
            } } }
        } }
        h3 { "Who did not come in" }
        @if mishaps.is_empty() { p { "Nobody was ejected, stalled or failed." } } @else { ul { @for one in mishaps { li { (one) } } } }
        h3 { "Versions" }
        ul { @for (scheduler, version) in versions { li { (names::scheduler(scheduler)) ": " (version) } } }
    }
}

fn cell(row: &Row, scheduler: &str) -> Markup {
    let entry = row.entries.iter().find(|entry| entry.scheduler == scheduler);
    html! { @match entry.map(|entry| &entry.figure) {
        Some(Ok(value)) => {
            @if row.is_best(*value) { b { (figure(*value)) } } @else { (figure(*value)) }
            @if let Some(ratio) = row.to_unloaded(*value) { br; small { (times(Some(ratio))) } }
        },
        Some(Err(why)) => small { (why) },
        None => "–",
    } }
}
