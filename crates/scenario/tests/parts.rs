//! Parts and mixes of a scenario, and what a wrong one is told.

use std::path::Path;

use appease_scenario::{Class, Load, Scenario};

const GOOD: &str = r#"
name = "pair"
summary = "a key and a loop"
loads = ["none", "all"]
duration_s = 5

[[app]]
id = "shell"
kind = "xterm"
run = "cat"
x = 0
y = 0
columns = 80
rows = 24

[[app]]
id = "camera"
kind = "capture"
width = 640
height = 480
fps = 25
x = 0
y = 400

[[app]]
id = "manager"
kind = "window-manager"
run = "exec wm"

[[typist]]
into = "shell"
strokes = ["a"]
times = 3
every_ms = 100

[[meter]]
kind = "key-to-screen"
app = "shell"

[[meter]]
kind = "video"
app = "camera"

[[part]]
name = "typing"
app = "shell"

[[part]]
name = "video"
app = "camera"

[[mix]]
name = "fifo-video"
display = "nice:-20"
apps = { camera = "fifo:10" }
protected = false
"#;

fn parse(text: &str) -> Result<Scenario, String> {
    Scenario::parse(text, "pair", "pair.toml").map_err(|error| error.to_string())
}

#[test]
fn without_a_load_each_part_has_its_turn_and_with_all_there_is_one() {
    let scenario = parse(GOOD).unwrap_or_else(|error| panic!("{error}"));
    let ids = |turn: &Scenario| turn.apps.iter().map(|app| app.id.clone()).collect::<Vec<_>>().join(" ");
    let turns = scenario.turns(Load::None);
    assert_eq!(turns.iter().map(ids).collect::<Vec<_>>(), ["shell manager", "camera manager"]);
    let counts = turns.iter().map(|turn| (turn.typists.len(), turn.meters.len(), turn.parts.len()));
    assert_eq!(counts.collect::<Vec<_>>(), [(1, 1, 1), (0, 1, 1)]);
    assert_eq!(scenario.turns(Load::All), std::slice::from_ref(&scenario));
    assert_eq!(scenario.part_of("camera").map(|part| part.name.as_str()), Some("video"));
    let fps = scenario.app("camera").and_then(|app| app.kind.frames_per_second(&scenario.clips));
    assert_eq!(fps, Some(25));
}

#[test]
fn a_mix_is_understood_and_survives_the_way_into_the_machine() {
    let scenario = parse(GOOD).unwrap_or_else(|error| panic!("{error}"));
    let mix = scenario.mix("fifo-video").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((mix.display, mix.apps.get("camera")), (Some(Class::Other(-20)), Some(&Class::Fifo(10))));
    assert!(!mix.protected);
    let told = serde_json::to_string(&scenario).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(serde_json::from_str::<Scenario>(&told).ok(), Some(scenario.clone()));
    let error = scenario.mix("fifo-audio").err();
    assert_eq!(error.as_deref(), Some("scenario \"pair\" has no mix \"fifo-audio\": there is fifo-video"));
}

#[test]
fn what_is_wrong_with_a_part_or_a_mix_is_named() {
    let again = "[[mix]]\nname = \"fifo-video\"\napps = { shell = \"batch\" }\n";
    let wrong = [
        (
            "app = \"camera\"\n\n[[mix]]",
            "app = \"player\"\n\n[[mix]]",
            "part \"video\": application \"player\" is not defined",
        ),
        (
            "app = \"camera\"\n\n[[mix]]",
            "app = \"shell\"\n\n[[mix]]",
            "part \"video\": application \"shell\" is in another part",
        ),
        (
            "app = \"camera\"\n\n[[mix]]",
            "app = \"manager\"\n\n[[mix]]",
            "part \"video\": application \"manager\" has 0 meters of kind",
        ),
        ("name = \"video\"", "name = \"typing\"", "two parts are called \"typing\""),
        ("name = \"video\"", "name = \"Video\"", "part \"Video\": a name is made of small letters"),
        ("name = \"video\"", "name = \"display\"", "is none of display, capture"),
        (
            "camera = \"fifo:10\"",
            "player = \"fifo:10\"",
            "mix \"fifo-video\": \"player\" is no application: there is shell, camera, manager",
        ),
        ("fifo:10", "deadline:10", "class \"deadline:10\" is not known: write other"),
        ("fifo:10", "fifo:0", "class \"fifo:0\" is not known"),
        ("fifo:10", "rr:100", "with P from 1 to 98"),
        ("nice:-20", "nice:-21", "nice:N with N from -20 to 19"),
        ("fifo:10", "batch", "mix \"fifo-video\": protected is false, but nobody in it is realtime"),
        ("[[mix]]", &format!("{again}[[mix]]"), "two mixes are called \"fifo-video\""),
        ("name = \"fifo-video\"", "name = \"fifo+video\"", "mix \"fifo+video\": a name is made of small letters"),
        (
            "\"none\", \"all\"",
            "\"none\", \"hogs:4\"",
            "load hogs:4: the parts of scenario \"pair\" are each other's load: allowed is none or all",
        ),
        ("\"none\", \"all\"", "\"none\", \"some\"", "load \"some\" is not known: write none, all, hogs:N"),
        ("height = 480", "height = 600", "application \"camera\": the camera has no picture of 640x600: allowed is"),
        ("fps = 25", "fps = 24", "application \"camera\": fps is 24: allowed is 1, 2"),
    ];
    for (old, new, told) in wrong {
        let text = GOOD.replacen(old, new, 1);
        assert_ne!(text, GOOD, "{old} is not in the file");
        let error = parse(&text).err().unwrap_or_else(|| panic!("{new} was accepted"));
        assert!(error.contains(told) && error.starts_with("scenario pair.toml: "), "{new}: {error}");
    }
    let without = GOOD.split("[[part]]").next().unwrap_or_default();
    let error = parse(without).err().unwrap_or_default();
    assert!(error.contains("load all: scenario \"pair\" has no parts"), "{error}");
}

/// Table 2 of the paper, but its last row and the plain one.
#[test]
fn the_rows_of_the_paper_are_mixes_of_the_scenario() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios/contour.toml");
    let scenario = Scenario::load(&file).unwrap_or_else(|error| panic!("{error}"));
    let realtime = ["video", "display", "video-over-display", "display-over-video"];
    for class in ["fifo", "rr"] {
        for (row, protected) in realtime.iter().flat_map(|row| [(row, true), (row, false)]) {
            let name = format!("{class}-{row}{}", if protected { "" } else { "-unprotected" });
            let mix = scenario.mix(&name).unwrap_or_else(|error| panic!("{error}"));
            assert_eq!(mix.protected, protected, "{name}");
            let (display, video) = (mix.display, mix.apps.get("player"));
            assert!(
                display.into_iter().chain(video.copied()).all(|c| c.is_realtime() && c.to_string().starts_with(class))
            );
            assert_eq!((display.is_some(), video.is_some()), (*row != "video", *row != "display"), "{name}");
        }
    }
    for name in ["nice", "nice-video-5", "nice-video-10", "batch"] {
        assert!(scenario.mix(name).is_ok(), "{name}");
    }
}
