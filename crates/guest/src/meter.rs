//! From kernel timestamps to metrics: pure functions over what the BPF programs recorded.

use std::collections::VecDeque;

use appease_scenario::Summary;

use crate::{
    clock::{SECOND, to_ms},
    events::{Happening, Record, Rect},
};

/// Share of the player's window that an update must cover to count as a frame.
const FRAME_COVER_PCT: i64 = 50;
/// Half the size of the box around the pointer in which an update may be the pointer's own image.
const SPRITE: i32 = 32;
/// Width and height of a character in the terminals' font, pixels.
const CELL: (i32, i32) = (6, 13);

/// A window on the screen, and where in it the typist's pointer rests.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// All of it.
    pub rect: Rect,
    /// The pointer's place.
    pub pointer: (i32, i32),
}

impl Window {
    /// The window at `rect`, its pointer near the lower right corner. Lines that are typed there must end before it: what
    /// changes only in the box around the pointer counts as the pointer's image.
    pub fn new(rect: Rect) -> Self {
        Self { rect, pointer: (rect.x2 - 12, rect.y2 - 8) }
    }

    /// Whether an update changed something here other than the pointer's image.
    pub fn is_touched_by(&self, update: &[Rect]) -> bool {
        update.is_empty() || self.changes(update).next().is_some()
    }

    /// What an update changed here other than the pointer's image.
    fn changes(&self, update: &[Rect]) -> impl Iterator<Item = Rect> {
        let (x, y) = self.pointer;
        let sprite = Rect { x1: x - SPRITE, y1: y - SPRITE, x2: x + SPRITE, y2: y + SPRITE };
        let inside = update.iter().map(|clip| clip.overlap(self.rect));
        inside.filter(move |inside| inside.area() > 0 && !sprite.contains(*inside))
    }

    /// How many characters an update shows at most; nothing where its form does not tell.
    ///
    /// A terminal draws each new character and the cursor after it. At the end of a line it draws the cursor's old and new
    /// places. Whatever else reaches beyond one row is several lines, or scrolls.
    fn characters_in(&self, update: &[Rect]) -> Option<usize> {
        let changes: Vec<Rect> = self.changes(update).collect();
        let cells = changes.iter().map(|change| change.area()).sum::<i64>() / (i64::from(CELL.0) * i64::from(CELL.1));
        let (top, bottom) = (changes.iter().map(|c| c.y1).min()?, changes.iter().map(|c| c.y2).max()?);
        let tells = cells <= 2 || bottom - top <= CELL.1;
        tells.then(|| usize::try_from(cells - 1).unwrap_or(0).max(1))
    }

    fn is_covered_by(&self, update: &[Rect]) -> bool {
        let covered: i64 = update.iter().map(|clip| clip.overlap(self.rect).area()).sum();
        update.is_empty() || covered * 100 >= self.rect.area() * FRAME_COVER_PCT
    }
}

/// A stroke that is to be answered, and until when an update may be its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wait {
    /// The key press.
    pub from_ns: u64,
    /// The next key press in that window, or the end.
    pub until_ns: u64,
    /// When the stroke's work was done, if that is known: what it wrote last is shown later.
    pub done_ns: Option<u64>,
}

/// What came of waiting.
#[derive(Debug, Default, PartialEq)]
pub struct Answers {
    /// Milliseconds, in order.
    pub ms: Vec<f64>,
    /// Strokes that nothing on the screen answered.
    pub unanswered: usize,
}

impl Answers {
    /// Those of spans from stroke to picture, and of so many strokes without one.
    fn of((spans, unanswered): (Vec<(u64, u64)>, usize)) -> Self {
        Self { ms: spans.into_iter().map(|(from_ns, shown_ns)| to_ms(shown_ns - from_ns)).collect(), unanswered }
    }
}

/// Time from each key, in order, to the update that shows its character.
pub fn echoes(records: &[Record], window: &Window, waits: &[Wait]) -> Answers {
    Answers::of(echo_spans(records, window, waits))
}

/// When each key was pressed and when it was shown, in order, and how many were not.
///
/// Characters are shown in the order in which they were typed, so an update answers the keys that wait longest, as many as
/// it shows. That an update comes after a key does not make it that key's: with every character 160 ms late and a key each
/// 150 ms, each comes 10 ms after the next key. A key's wait therefore does not end with the next press.
pub fn echo_spans(records: &[Record], window: &Window, waits: &[Wait]) -> (Vec<(u64, u64)>, usize) {
    let mut found = Vec::new();
    let mut typed = waits.iter().map(|wait| wait.from_ns).peekable();
    let mut waiting = VecDeque::new();
    for record in records {
        let Happening::Update(clips) = &record.what else { continue };
        if !window.is_touched_by(clips) {
            continue;
        }
        waiting.extend(std::iter::from_fn(|| typed.next_if(|&from_ns| from_ns < record.at_ns)));
        let shown = window.characters_in(clips).map_or(waiting.len(), |shown| shown.min(waiting.len()));
        found.extend(waiting.drain(..shown).map(|from_ns| (from_ns, record.at_ns)));
    }
    (found, waiting.len() + typed.count())
}

/// Time from each stroke to the end of its output.
pub fn outputs(records: &[Record], window: &Window, waits: &[Wait]) -> Answers {
    Answers::of(output_spans(records, window, waits))
}

/// When each stroke was typed and when the last update of its own was shown, in order, and how many had none.
pub fn output_spans(records: &[Record], window: &Window, waits: &[Wait]) -> (Vec<(u64, u64)>, usize) {
    let (mut found, mut unanswered) = (Vec::new(), 0);
    for wait in waits {
        let own = records.iter().rfind(|record| {
            let Happening::Update(clips) = &record.what else { return false };
            wait.from_ns < record.at_ns && record.at_ns < wait.until_ns && window.is_touched_by(clips)
        });
        match own.filter(|last| wait.done_ns.is_none_or(|done_ns| last.at_ns > done_ns)) {
            Some(update) => found.push((wait.from_ns, update.at_ns)),
            None => unanswered += 1,
        }
    }
    (found, unanswered)
}

/// What became of a video.
#[derive(Debug, PartialEq)]
pub struct Video {
    /// Share of the frames due that were not shown, percent.
    pub dropped_pct: f64,
    /// Frames shown per second.
    pub fps: f64,
    /// The fewest frames in a second that begins with one; nothing when none was shown that early.
    pub worst_second: Option<u64>,
    /// Time from one shown frame to the next.
    pub interval_ms: Option<Summary>,
    /// Frames shown.
    pub shown: u64,
    /// Frames due.
    pub due: u64,
}

/// Frames shown in `window` between two instants, of a clip with `fps` frames per second.
///
/// Due are the frame periods that lie inside for certain: the first may be cut off by the window's
/// edges, so one period less than the time holds.
#[allow(clippy::cast_precision_loss)]
pub fn video(records: &[Record], window: &Window, fps: u32, begin_ns: u64, end_ns: u64) -> Video {
    let shown: Vec<u64> = records
        .iter()
        .filter(|record| (begin_ns..end_ns).contains(&record.at_ns))
        .filter(|record| matches!(&record.what, Happening::Update(clips) if window.is_covered_by(clips)))
        .map(|record| record.at_ns)
        .collect();
    let periods = (end_ns - begin_ns) * u64::from(fps) / SECOND;
    let due = periods.saturating_sub(1);
    let missing = due.saturating_sub(shown.len() as u64);
    let gaps: Vec<f64> = shown.windows(2).map(|pair| to_ms(pair[1] - pair[0])).collect();
    Video {
        dropped_pct: if due == 0 { 0.0 } else { 100.0 * missing as f64 / due as f64 },
        fps: shown.len() as f64 / (to_ms(end_ns - begin_ns) / 1e3),
        worst_second: worst_second(&shown, end_ns),
        interval_ms: Summary::of(&gaps),
        shown: shown.len() as u64,
        due,
    }
}

/// The fewest instants in a second that begins with one of them and ends before `end_ns`.
///
/// A second of the clock may begin just after a frame, and so hold one frame less than are shown in a second; one that
/// begins with a frame holds them all, as long as each is late by less than a frame's time.
fn worst_second(shown: &[u64], end_ns: u64) -> Option<u64> {
    let whole = shown.iter().filter(|&&at_ns| at_ns + SECOND <= end_ns);
    let counts = whole.enumerate().map(|(place, &at_ns)| {
        let beyond = shown.partition_point(|&other| other < at_ns + SECOND);
        (beyond - place) as u64
    });
    counts.min()
}

/// Requests for a page, each with the time in which it was shown: until the next one. What was shown of the last one may
/// be cut off, so it is left out.
pub fn reloads(records: &[Record]) -> Vec<Wait> {
    let requests: Vec<u64> =
        records.iter().filter(|record| record.what == Happening::Request).map(|record| record.at_ns).collect();
    requests.windows(2).map(|pair| Wait { from_ns: pair[0], until_ns: pair[1], done_ns: None }).collect()
}

/// Presses of keys that write something, in order: the instants that the typist's log refers to.
pub fn presses(records: &[Record]) -> Vec<u64> {
    records
        .iter()
        .filter(|record| matches!(record.what, Happening::Key(code) if !crate::keyboard::is_modifier(code)))
        .map(|record| record.at_ns)
        .collect()
}

/// The number of frames that mplayer itself says it dropped: the last figure but one of its status line.
///
/// The line is rewritten with carriage returns: `A: 1.0 V: 1.0 A-V: 0.0 ct: 0.0 25/25 20% 5% 1.2% 3 0`.
pub fn player_drops(log: &str) -> Option<u64> {
    let line = status_line(log)?;
    let figures: Vec<&str> = line.split_whitespace().filter(|word| word.parse::<u64>().is_ok()).collect();
    figures.len().checked_sub(2).and_then(|at| figures.get(at)).and_then(|word| word.parse().ok())
}

/// The number of frames that mplayer has decoded, shown or not, from the same line. Without sound that one says neither `A:`
/// nor `A-V:`.
pub fn player_frames(log: &str) -> Option<u64> {
    let (before, _) = status_line(log)?.split_once('/')?;
    before.split_whitespace().last()?.parse().ok()
}

fn status_line(log: &str) -> Option<&str> {
    log.rsplit(['\r', '\n']).find(|line| line.contains("V:") && line.contains('/') && line.contains('%'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::MS;

    const XTERM: Rect = Rect { x1: 100, y1: 100, x2: 500, y2: 400 };

    fn update(at_ms: u64, clips: &[Rect]) -> Record {
        Record { at_ns: at_ms * MS, what: Happening::Update(clips.to_vec()) }
    }

    fn cell(x: i32, y: i32) -> Rect {
        Rect { x1: x, y1: y, x2: x + 6, y2: y + 13 }
    }

    fn typed(at_ms: &[u64]) -> Vec<Wait> {
        at_ms.iter().map(|at| Wait { from_ns: at * MS, until_ns: u64::MAX, done_ns: None }).collect()
    }

    /// The update after `characters` more of a row, of which so many were there before: with the cursor's cell.
    fn row(at_ms: u64, before: i32, characters: i32) -> Record {
        let x = 110 + before * CELL.0;
        update(at_ms, &[Rect { x1: x, y1: 110, x2: x + (characters + 1) * CELL.0, y2: 110 + CELL.1 }])
    }

    #[test]
    fn an_echo_is_the_first_update_inside_the_window() {
        let records =
            [row(9, 0, 1), update(11, &[cell(600, 110)]), row(12, 1, 1), row(15, 2, 1), row(22, 3, 1), row(30, 4, 1)];
        let echo = echoes(&records, &Window::new(XTERM), &typed(&[10, 20, 40]));
        assert_eq!(echo, Answers { ms: vec![2.0, 2.0], unanswered: 1 });
    }

    #[test]
    fn a_steady_lag_longer_than_the_time_between_keys_stays_what_it_is() {
        let keys: Vec<u64> = (0..20).map(|n| 1000 + n * 150).collect();
        let records: Vec<Record> = (0..20).map(|n| row(1160 + n * 150, i32::try_from(n).unwrap_or(0), 1)).collect();
        let echo = echoes(&records, &Window::new(XTERM), &typed(&keys));
        assert_eq!(echo, Answers { ms: vec![160.0; 20], unanswered: 0 });
    }

    #[test]
    fn several_characters_shown_at_once_answer_several_keys_and_delay_none_after_them() {
        let records = [row(310, 0, 3), row(451, 3, 1)];
        let echo = echoes(&records, &Window::new(XTERM), &typed(&[1, 151, 301, 450]));
        assert_eq!(echo, Answers { ms: vec![309.0, 159.0, 9.0, 1.0], unanswered: 0 });
    }

    #[test]
    fn the_end_of_a_line_is_one_key_and_scrolling_shows_all_that_was_typed() {
        let window = Window::new(XTERM);
        let end = |at_ms| update(at_ms, &[cell(188, 110), cell(110, 123)]);
        let echo = echoes(&[end(160), row(310, 0, 1)], &window, &typed(&[0, 150]));
        assert_eq!(echo, Answers { ms: vec![160.0, 160.0], unanswered: 0 });
        let echo = echoes(&[update(310, &[XTERM]), row(451, 0, 1)], &window, &typed(&[1, 151, 301, 450]));
        assert_eq!(echo, Answers { ms: vec![309.0, 159.0, 9.0, 1.0], unanswered: 0 });
        let echo = echoes(&[update(310, &[])], &window, &typed(&[1, 151]));
        assert_eq!(echo, Answers { ms: vec![309.0, 159.0], unanswered: 0 });
    }

    #[test]
    fn the_end_of_output_is_the_last_update_of_a_strokes_own() {
        let records = [update(12, &[cell(116, 110)]), update(15, &[cell(122, 110)]), update(30, &[cell(128, 110)])];
        let window = Window::new(XTERM);
        let output = |from: u64, until: u64, done: Option<u64>| {
            let wait = Wait { from_ns: from * MS, until_ns: until * MS, done_ns: done.map(|at| at * MS) };
            outputs(&records, &window, &[wait])
        };
        let shown = Answers { ms: vec![5.0], unanswered: 0 };
        let not_shown = Answers { ms: vec![], unanswered: 1 };
        assert_eq!(output(10, 20, None), shown);
        assert_eq!(output(20, 30, None), not_shown);
        assert_eq!(output(10, 20, Some(14)), shown);
        assert_eq!(output(10, 20, Some(16)), not_shown, "only an echo was shown");
    }

    #[test]
    fn the_pointers_image_is_no_answer_but_the_whole_screen_is() {
        let window = Window::new(XTERM);
        let (x, y) = window.pointer;
        assert!(!window.is_touched_by(&[Rect { x1: x, y1: y, x2: x + 16, y2: y + 16 }]));
        assert!(window.is_touched_by(&[cell(x, y), cell(110, 110)]));
        assert!(window.is_touched_by(&[]));
    }

    #[test]
    fn a_video_that_loses_every_second_frame_has_lost_half() {
        let window = Window::new(Rect { x1: 0, y1: 0, x2: 1280, y2: 720 });
        let frames: Vec<Record> = (0..25).map(|n| update(1010 + n * 40, &[window.rect])).collect();
        let whole = video(&frames, &window, 25, 1000 * MS, 2000 * MS);
        assert_eq!((whole.dropped_pct, whole.shown, whole.due), (0.0, 25, 24));
        let half: Vec<Record> = frames.into_iter().step_by(2).collect();
        let lost = video(&half, &window, 25, 1000 * MS, 2000 * MS);
        assert!((lost.dropped_pct - 45.8).abs() < 0.1, "{}", lost.dropped_pct);
        assert_eq!(lost.interval_ms.map(|gaps| gaps.p50), Some(80.0));
        let text = [update(1500, &[cell(10, 10)])];
        assert_eq!(video(&text, &window, 25, 1000 * MS, 2000 * MS).shown, 0);
    }

    #[test]
    fn the_worst_second_is_short_of_what_was_lost_in_it() {
        // 25 frames a second for 3 s, each up to 16 ms late.
        let full: Vec<u64> = (0..75).map(|n| (n * 40 + n * 7 % 17) * MS).collect();
        assert_eq!(worst_second(&full, 3000 * MS), Some(25));
        let mut lost = full.clone();
        lost.remove(40);
        assert_eq!(worst_second(&lost, 3000 * MS), Some(24));
        lost.drain(30..50);
        assert_eq!(worst_second(&lost, 3000 * MS), Some(25 - 21));
        assert_eq!(worst_second(&full, 900 * MS), None);
    }

    #[test]
    fn a_page_is_shown_until_the_next_request() {
        let request = |at_ms: u64| Record { at_ns: at_ms * MS, what: Happening::Request };
        let records = [
            request(100),
            update(150, &[cell(110, 110)]),
            update(180, &[cell(110, 130)]),
            request(400),
            update(410, &[cell(600, 110)]),
            update(430, &[cell(110, 110)]),
            request(700),
            update(720, &[cell(110, 110)]),
        ];
        let shown = outputs(&records, &Window::new(XTERM), &reloads(&records));
        assert_eq!(shown, Answers { ms: vec![80.0, 30.0], unanswered: 0 });
    }

    #[test]
    fn mplayers_own_counts_are_found() {
        let log = "Starting playback...\nA:   1.0 V:   1.0 A-V:  0.000 ct:  0.000  25/ 25 20%  5%  1.2% 0 0 \r\
                   A:   2.0 V:   2.0 A-V:  0.013 ct:  0.000  50/ 50 20%  5%  1.2% 17 0 \r\n\nExiting... (Quit)\n";
        assert_eq!((player_drops(log), player_frames(log)), (Some(17), Some(50)));
        assert_eq!(player_drops("no sound"), None);
        let silent =
            "VIDEO:  640x480  24bpp\nV:   1.0  26/ 26 ??% ??% ??,?% 0 0 \rV:   2.0  51/ 51 31%  9%  0.0% 0 0 \r";
        assert_eq!(player_frames(silent), Some(51));
    }
}
