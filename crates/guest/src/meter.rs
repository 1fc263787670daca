//! From kernel timestamps to metrics: pure functions over what the BPF programs recorded.

use appease_scenario::Summary;

use crate::{
    clock::{SECOND, to_ms},
    events::{Happening, Record, Rect},
};

/// Share of the player's window that an update must cover to count as a frame.
const FRAME_COVER_PCT: i64 = 50;
/// Half the size of the box around the pointer in which an update may be the pointer's own image.
const SPRITE: i32 = 32;

/// A window on the screen, and where in it the typist's pointer rests.
#[derive(Debug, Clone, Copy)]
pub struct Window {
    /// All of it.
    pub rect: Rect,
    /// The pointer's place.
    pub pointer: (i32, i32),
}

impl Window {
    /// The window at `rect`, its pointer near the lower right corner, where nothing is written.
    pub fn new(rect: Rect) -> Self {
        Self { rect, pointer: (rect.x2 - 12, rect.y2 - 8) }
    }

    /// Whether an update changed something here other than the pointer's image.
    pub fn is_touched_by(&self, update: &[Rect]) -> bool {
        let (x, y) = self.pointer;
        let sprite = Rect { x1: x - SPRITE, y1: y - SPRITE, x2: x + SPRITE, y2: y + SPRITE };
        update.is_empty()
            || update.iter().any(|clip| {
                let inside = clip.overlap(self.rect);
                inside.area() > 0 && !sprite.contains(inside)
            })
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

/// Which update of a stroke's own is its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// An echo.
    First,
    /// The end of a command's output.
    Last,
}

/// Time from each stroke to its answer.
pub fn answers(records: &[Record], window: &Window, waits: &[Wait], which: Answer) -> Answers {
    let mut found = Answers::default();
    for wait in waits {
        let mut own = records.iter().filter(|record| {
            let Happening::Update(clips) = &record.what else { return false };
            wait.from_ns < record.at_ns && record.at_ns < wait.until_ns && window.is_touched_by(clips)
        });
        let answer = match which {
            Answer::First => own.next(),
            Answer::Last => own.next_back().filter(|last| wait.done_ns.is_none_or(|done_ns| last.at_ns > done_ns)),
        };
        match answer {
            Some(update) => found.ms.push(to_ms(update.at_ns - wait.from_ns)),
            None => found.unanswered += 1,
        }
    }
    found
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

/// The number of frames that mplayer has decoded, shown or not, from the same line.
pub fn player_frames(log: &str) -> Option<u64> {
    let (_, after) = status_line(log)?.split_once("ct:")?;
    let (before, _) = after.split_once('/')?;
    before.split_whitespace().last()?.parse().ok()
}

fn status_line(log: &str) -> Option<&str> {
    log.rsplit(['\r', '\n']).find(|line| line.contains("A-V:") && line.contains('%'))
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

    #[test]
    fn an_echo_is_the_first_update_inside_the_window() {
        let records = [
            update(9, &[cell(110, 110)]),
            update(11, &[cell(600, 110)]),
            update(12, &[cell(116, 110)]),
            update(15, &[cell(122, 110)]),
            update(30, &[cell(128, 110)]),
        ];
        let wait = |from: u64, until: u64, done: Option<u64>| Wait {
            from_ns: from * MS,
            until_ns: until * MS,
            done_ns: done.map(|at| at * MS),
        };
        let waits = [wait(10, 20, None), wait(20, 30, None)];
        let window = Window::new(XTERM);
        let echo = answers(&records, &window, &waits, Answer::First);
        assert_eq!(echo, Answers { ms: vec![2.0], unanswered: 1 });
        let command = answers(&records, &window, &waits, Answer::Last);
        assert_eq!(command, Answers { ms: vec![5.0], unanswered: 1 });
        let shown = answers(&records, &window, &[wait(10, 20, Some(14))], Answer::Last);
        assert_eq!(shown, Answers { ms: vec![5.0], unanswered: 0 });
        let not_shown = answers(&records, &window, &[wait(10, 20, Some(16))], Answer::Last);
        assert_eq!(not_shown, Answers { ms: vec![], unanswered: 1 }, "only an echo was shown");
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
        let shown = answers(&records, &Window::new(XTERM), &reloads(&records), Answer::Last);
        assert_eq!(shown, Answers { ms: vec![80.0, 30.0], unanswered: 0 });
    }

    #[test]
    fn mplayers_own_counts_are_found() {
        let log = "Starting playback...\nA:   1.0 V:   1.0 A-V:  0.000 ct:  0.000  25/ 25 20%  5%  1.2% 0 0 \r\
                   A:   2.0 V:   2.0 A-V:  0.013 ct:  0.000  50/ 50 20%  5%  1.2% 17 0 \r\n\nExiting... (Quit)\n";
        assert_eq!((player_drops(log), player_frames(log)), (Some(17), Some(50)));
        assert_eq!(player_drops("no sound"), None);
    }
}
