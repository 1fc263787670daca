//! The scenario files of the project, and what a wrong one is told.

use std::path::Path;

use appease_scenario::{AppKind, Load, Scenario};

const GOOD: &str = r#"
name = "calm"
summary = "nothing much"
loads = ["none"]
duration_s = 5

[[app]]
id = "shell"
kind = "xterm"
run = "cat"
x = 0
y = 0
columns = 80
rows = 24

[[typist]]
into = "shell"
strokes = ["a"]
times = 3
every_ms = 100

[[meter]]
kind = "key-to-screen"
app = "shell"
"#;

#[test]
fn all_files_load() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let files = std::fs::read_dir(&folder).expect("scenarios/ is there");
    let files: Vec<_> = files.map(|entry| entry.expect("a readable entry").path()).collect();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let scenario = Scenario::load(&file).unwrap_or_else(|error| panic!("{error}"));
        assert!(!scenario.meters.is_empty(), "{} measures nothing", file.display());
        assert!(scenario.short.is_some(), "{} has no short form", file.display());
    }
}

#[test]
fn the_example_of_contributing_is_right() {
    let text = include_str!("../../../CONTRIBUTING.md");
    let example = text.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("an example");
    Scenario::parse(example, "calm", "CONTRIBUTING.md").unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn an_application_of_each_kind_is_understood_and_short_form_shortens() {
    let scenario = Scenario::parse(GOOD, "calm", "calm.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(scenario.apps.len(), 1);
    let short = Scenario::parse(&format!("{GOOD}\n[short]\nduration_s = 1\ntimes = 2\n"), "calm", "calm.toml")
        .unwrap_or_else(|error| panic!("{error}"))
        .shortened();
    assert!((short.duration_s - 1.0).abs() < f64::EPSILON);
    assert_eq!(short.typists[0].times, 2);
}

const SHELL: &str = r#"
name = "calm"
summary = "A check"
loads = ["none"]
duration_s = 20

[[app]]
id = "checks"
kind = "shell"
run = "all"

[[meter]]
kind = "checks"
app = "checks"

[short]
duration_s = 20
times = 1
"#;

#[test]
fn the_short_form_may_run_other_commands() {
    let scenario = Scenario::parse(&format!("{SHELL}run.checks = \"some\"\n"), "calm", "calm.toml")
        .unwrap_or_else(|error| panic!("{error}"));
    let runs =
        |scenario: &Scenario, words: &str| matches!(&scenario.apps[0].kind, AppKind::Shell { run, .. } if run == words);
    assert!(runs(&scenario, "all"));
    assert!(runs(&scenario.shortened(), "some"));
    let wrong = Scenario::parse(&format!("{SHELL}run.others = \"some\"\n"), "calm", "calm.toml");
    assert!(wrong.is_err_and(|error| error.to_string().contains("no shell application")));
}

const FILM: &str = r#"
[[clip]]
name = "film"
width = 352
height = 240
fps = 24
seconds = 8

[[app]]
id = "player"
kind = "mpv"
clip = "film"
x = 0
y = 20
scaled = [800, 600]
"#;

#[test]
fn a_film_a_manager_and_a_browser_are_understood() {
    let more = "[[app]]\nid = \"manager\"\nkind = \"window-manager\"\nrun = \"exec wm\"\n\
                [[app]]\nid = \"browser\"\nkind = \"window\"\nrun = \"exec browser\"\ntitle = \"News\"\n\
                [[meter]]\nkind = \"reload\"\napp = \"browser\"\n";
    let top = "channels = [\"read connect 192.0.2.2\"]\nload_in = \"shell\"\n";
    let scenario = Scenario::parse(&format!("{top}{GOOD}{FILM}{more}"), "calm", "calm.toml");
    let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
    let film = scenario.app("player").and_then(|app| app.kind.player()).expect("a player");
    assert_eq!((film.clip.as_str(), film.scaled), ("film", Some((800, 600))));
    assert!(scenario.apps.iter().all(|app| app.kind.needs_screen()));
    assert_eq!((scenario.load_in.as_deref(), scenario.channels.len()), (Some("shell"), 1));
}

#[test]
fn what_is_wrong_with_a_film_is_named() {
    let wrong = [
        ("clip = \"film\"", "clip = \"movie\"", "plays clip \"movie\", which is not defined"),
        ("scaled = [800, 600]", "scaled = [800]", "application \"player\": scaled: invalid length 1"),
        ("scaled = [800, 600]", "zoom = 2", "zoom"),
    ];
    for (old, new, told) in wrong {
        let text = format!("{GOOD}{}", FILM.replacen(old, new, 1));
        let error = Scenario::parse(&text, "calm", "calm.toml").err().map(|e| e.to_string());
        let error = error.unwrap_or_else(|| panic!("{new} was accepted"));
        assert!(error.contains(told), "{new}: {error}");
    }
}

#[test]
fn a_server_that_must_be_ready_is_understood() {
    let server = |ready: &str| {
        let text = format!("[[app]]\nid = \"server\"\nkind = \"shell\"\nrun = \"exec server\"\nready = \"{ready}\"\n");
        Scenario::parse(&format!("{GOOD}{text}"), "calm", "calm.toml")
    };
    server("/run/server.pid").expect("right");
    let error = server("server.pid").err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("\"server\": ready is \"server.pid\": allowed is a path from the root on"), "{error}");
}

#[test]
fn somebody_must_type_the_load() {
    let silent = GOOD.split("[[typist]]").next().unwrap_or_default();
    let error = Scenario::parse(&format!("load_in = \"shell\"\n{silent}"), "calm", "calm.toml").err();
    let error = error.map(|e| e.to_string()).unwrap_or_default();
    assert!(error.contains("there is no typist to type the load there"), "{error}");
}

#[test]
fn a_longer_run_is_busy_to_its_end() {
    let clip = "[[clip]]\nname = \"film\"\nwidth = 320\nheight = 240\nfps = 25\nseconds = 8\n";
    let parsed = Scenario::parse(&format!("{GOOD}\n{clip}"), "calm", "calm.toml");
    let scenario = parsed.unwrap_or_else(|error| panic!("{error}"));
    let long = scenario.clone().lasting(50.0);
    assert_eq!((long.clips[0].seconds, long.typists[0].times), (8 + 45, 30));
    let brief = scenario.lasting(2.0);
    assert_eq!((brief.clips[0].seconds, brief.typists[0].times), (8, 3), "what is cut off needs no change");
}

const VISIT: &str = r#"
name = "calm"
summary = "somebody far away"
packages = ["openssh-client", "openssh-server"]
loads = ["none", "build:4", "users:3"]
load_by = "bob"
duration_s = 5

[[app]]
id = "alice"
kind = "ssh"
run = "exec bash"
prompt = "next> "
rounds = 10
pause_ms = 100

[[app.line]]
name = "short"
text = "ls"

[[meter]]
kind = "answer"
app = "alice"
"#;

#[test]
fn users_log_in_alone_or_many() {
    let scenario = Scenario::parse(VISIT, "calm", "calm.toml").unwrap_or_else(|error| panic!("{error}"));
    let users =
        |load| scenario.visitors(load).into_iter().map(|(user, app)| user + " is " + &app.id).collect::<Vec<_>>();
    assert_eq!(users(Load::Build(4)), ["alice is alice"]);
    assert_eq!(users(Load::Users(2)), ["alice1 is alice", "alice2 is alice"]);
    let rounds = |scenario: &Scenario| match &scenario.apps[0].kind {
        AppKind::Ssh(visit) => visit.rounds,
        other => panic!("{other:?}"),
    };
    assert_eq!(rounds(&scenario.clone().lasting(10.0)), 20);
    let short = Scenario::parse(&format!("{VISIT}\n[short]\nduration_s = 1\ntimes = 2\n"), "calm", "calm.toml");
    assert_eq!(short.map(|scenario| rounds(&scenario.shortened())).ok(), Some(2));
}

#[test]
fn what_is_wrong_is_named() {
    let local = [
        ("rows = 24", "rows = 24\ncolour = 3", "colour"),
        ("rows = 24", "rows = \"many\"", "application \"shell\": rows: invalid type: string \"many\", expected u32"),
        ("rows = 24", "", "application \"shell\": missing field `rows`"),
        ("id = \"shell\"", "", "missing field `id`"),
        ("kind = \"xterm\"", "kind = \"gterm\"", "gterm"),
        ("duration_s = 5", "duration_s = 0", "duration_s is 0"),
        ("into = \"shell\"", "into = \"shelf\"", "\"shelf\", which is not defined"),
        ("loads = [\"none\"]", "loads = [\"hogs\"]", "load \"hogs\" is not known"),
        ("name = \"calm\"", "name = \"storm\"", "the file is called calm.toml"),
        ("every_ms = 100", "every_ms = 100\nfoo = 1", "foo"),
        ("every_ms = 100", "every_ms = 100\npatience_s = 0", "patience_s is 0: allowed is 1 to 3600"),
        ("duration_s = 5", "duration_s = 5\nconfig = \"[[customer\"", "config is no TOML: TOML parse error at line 1"),
        ("duration_s = 5", "duration_s = 5\nload_in = \"shelf\"", "load_in is \"shelf\", which is not defined"),
        ("strokes = [\"a\"]", "strokes = [\"a\", \"bc\"]", "each stroke there must be one key"),
        ("kind = \"key-to-screen\"", "kind = \"reload\"", "meter Reload cannot observe \"shell\""),
    ];
    let remote = [
        ("rounds = 10", "rounds = 10\ncolour = 3", "colour"),
        ("id = \"alice\"", "id = \"al ice\"", "user \"al ice\""),
        ("load_by = \"bob\"", "load_by = \"bob\"\nload_in = \"alice\"", "load_in is \"alice\", which is no xterm"),
        ("load_by = \"bob\"", "load_by = \"alice\"", "load_by is \"alice\", who types already"),
        (", \"openssh-server\"", "", "packages lacks \"openssh-server\""),
        ("text = \"ls\"", "text = 7", "application \"alice\": line[0].text: invalid type: integer"),
        ("text = \"ls\"", "text = \"echo next> \"", "would answer itself"),
        ("text = \"ls\"", "text = \"ls\\nls\"", "must be one line"),
        ("prompt = \"next> \"", "prompt = \"$ \"", "too short"),
        ("kind = \"answer\"", "kind = \"work\"", "meter Work cannot observe \"alice\""),
        ("kind = \"answer\"", "kind = \"lane\"\ncommands = [\"ls\"]\nline = \"long\"", "types no line \"long\""),
        ("kind = \"answer\"", "kind = \"lane\"\ncommands = [\"ls\"]\nline = \"short\"", "observes one visitor"),
    ];
    refused(GOOD, &local);
    refused(GOOD, &[("loads = [\"none\"]", "loads = [\"users:2\"]", "no application of kind ssh")]);
    refused(VISIT, &remote);
}

#[test]
fn what_is_wrong_is_told_once() {
    let unread = Scenario::load(Path::new("no/such.toml")).expect_err("it is not there");
    let misspelt = Scenario::parse("nmae = 1\n", "calm", "calm.toml").expect_err("no name");
    for error in [unread, misspelt] {
        // Who prints the chain of causes would print a cause that is in the text already once more.
        assert!(std::error::Error::source(&error).is_none(), "{error}");
    }
}

#[test]
fn a_scenario_survives_its_way_to_the_guest() {
    for good in [format!("{GOOD}{FILM}"), GOOD.to_owned(), VISIT.to_owned()] {
        let scenario = Scenario::parse(&good, "calm", "calm.toml").unwrap_or_else(|error| panic!("{error}"));
        let sent = serde_json::to_string(&scenario).expect("it can be written");
        assert_eq!(serde_json::from_str::<Scenario>(&sent).ok(), Some(scenario), "{sent}");
    }
}

/// Each change of a good scenario is refused with these words.
fn refused(good: &str, changes: &[(&str, &str, &str)]) {
    for (old, new, told) in changes {
        assert!(good.contains(old), "{old}");
        let error = Scenario::parse(&good.replacen(old, new, 1), "calm", "calm.toml").err().map(|e| e.to_string());
        let error = error.unwrap_or_else(|| panic!("{new} was accepted"));
        assert!(error.contains("calm.toml") && error.contains(told), "{new}: {error}");
    }
}
