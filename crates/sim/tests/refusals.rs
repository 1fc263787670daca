//! The command where it must refuse: one message that names the thing, what is wrong and the cure; non-zero exit.
#![allow(clippy::unwrap_used)]

use std::{
    fs,
    process::{Command, Output},
};

fn appease_sim(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_appease-sim")).args(args).output().unwrap()
}

const HOG: &str = "name = \"x\"\ncpus = 1\nduration_s = 0.1\n[[hog]]\nid = \"h\"\n";
const SERVER: &str = "[[server]]\nid = \"web\"\nwork_ms = 1\n";

/// What the command says of a file with this text, without the file's name.
fn refused(text: &str) -> String {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.toml");
    fs::write(&path, text).unwrap();
    let output = appease_sim(&["run", path.to_str().unwrap()]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success(), "it ran");
    assert_eq!(message.lines().count(), 1, "{message}");
    let start = format!("appease-sim: {}, ", path.display());
    message.strip_prefix(&start).unwrap_or_else(|| panic!("{message}")).trim_end().to_owned()
}

fn customer(line: &str) -> String {
    let to = if line.contains("to =") { "" } else { "to = \"web\"\n" };
    format!("{HOG}{SERVER}[[customer]]\nid = \"c\"\narrivals = {{ open_ms = 5 }}\n{to}{line}\n")
}

#[test]
fn weights_out_of_range() {
    for weight in ["0", "-1", "nan", "inf", "1e9"] {
        let message = refused(&customer(&format!("weight = {weight}")));
        assert!(message.starts_with("line 13: weight "), "{message}");
        assert!(message.ends_with("is out of range: write a number from 0.01 to 100, where 1 is everybody's default"));
        assert!(refused(&customer(&format!("request_weight = {weight}"))).starts_with("line 13: weight "));
    }
}

#[test]
fn alpha_out_of_range() {
    for alpha in ["0.5", "-0.1", "nan", "7"] {
        let message = refused(&format!("alpha = {alpha}\n{HOG}"));
        assert!(message.starts_with("line 1: alpha "), "{message}");
        assert!(message.contains("write a number from 0 up to, but not including, 0.5"), "{message}");
    }
}

#[test]
fn schedulers_that_do_not_exist() {
    let cure = "scheduler \"lavd\" is not known: write one of rr, mlfq, cfs, eevdf, rbpe, cas, appease, steady";
    assert_eq!(refused(&format!("schedulers = [\"lavd\"]\n{HOG}")), format!("line 1: {cure}"));
    let output = appease_sim(&["run", "x.toml", "--under", "cfs,lavd"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && message.contains(cure), "{message}");
}

#[test]
fn files_that_are_not_there_or_no_scenarios() {
    let output = appease_sim(&["run", "nowhere.toml"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(message.starts_with("appease-sim: reading nowhere.toml: No such file"), "{message}");
    assert!(refused(&format!("{HOG}colour = 1\n")).starts_with("line 6: unknown field `colour`, expected one of `id`"));
    assert!(refused("name = \"x\"\ncpus = \n").starts_with("line 2: "));
    assert!(refused("name = \"x\"\ncpus = 1\n").contains("missing field `duration_s`"));
}

#[test]
fn numbers_out_of_range() {
    let with = |from: &str, to: &str| refused(&HOG.replace(from, to));
    assert_eq!(with("cpus = 1", "cpus = 0"), "line 2: cpus 0 is out of range: write a number from 1 to 4096");
    assert_eq!(with("cpus = 1", "cpus = 4097"), "line 2: cpus 4097 is out of range: write a number from 1 to 4096");
    let caches = "a number from 1 to 64, and no more than there are CPUs";
    for (machine, number) in [("cpus = 99\ncaches = 0", 0), ("cpus = 99\ncaches = 65", 65), ("cpus = 1\ncaches = 2", 2)]
    {
        assert_eq!(with("cpus = 1", machine), format!("line 3: caches {number} is out of range: write {caches}"));
    }
    let message = with("0.1", "nan");
    assert_eq!(message, "line 3: duration_s NaN is out of range: write seconds above 0, up to 100000");
    let message = refused(&format!("{HOG}number = 1000001\n"));
    assert_eq!(message, "line 6: number 1000001 is out of range: write a number from 1 to 1000000");
    let message = refused(&format!("{HOG}nice = 20\n"));
    assert_eq!(message, "line 6: nice 20 is out of range: write a whole number from -20 (most CPU time) to 19 (least)");
    let message = refused("name = \"x\"\ncpus = 1\nduration_s = 1\n");
    assert_eq!(message, "line 1: there is no task: add a [[hog]], an [[interactive]] or a [[server]]");
}

#[test]
fn cores_and_speeds_that_fit_no_machine() {
    let with = |machine: &str| refused(&HOG.replace("cpus = 1", machine));
    assert_eq!(with("cpus = 9\nthreads = 9"), "line 3: threads 9 is out of range: write a number from 1 to 8");
    let whole = "have whole cores";
    assert_eq!(
        with("cpus = 6\ncaches = 2\nthreads = 2"),
        format!("line 4: threads 2 fits no machine of 6 CPUs, 3 in a cache: {whole}")
    );
    assert_eq!(
        with("cpus = 5\nthreads = 2"),
        format!("line 3: threads 2 fits no machine of 5 CPUs, 5 in a cache: {whole}")
    );
    assert_eq!(with("cpus = 2\ncapacities = [1024]"), "line 3: there are 1 capacities for 2 CPUs: write one for each");
    for capacity in [0, 1025] {
        assert_eq!(
            with(&format!("cpus = 2\ncapacities = [1024, {capacity}]")),
            format!("line 3: capacity {capacity} is out of range: write a number from 1 to 1024")
        );
    }
    assert_eq!(
        with("cpus = 2\nthreads = 2\ncapacities = [1024, 512]"),
        "line 4: CPUs of a core have different capacities: give them the same"
    );
    let capacities: Vec<u32> = (0..66).map(|cpu| if cpu % 2 == 0 { 1024 } else { 512 }).collect();
    assert_eq!(
        with(&format!("cpus = 66\ncaches = 33\ncapacities = {capacities:?}")),
        "line 4: caches with fast and slow CPUs make 66 domains: have at most 64"
    );
}

#[test]
fn times_that_make_no_sense() {
    let with = |time: &str| refused(&format!("{HOG}{}", SERVER.replace("work_ms = 1", &format!("work_ms = {time}"))));
    assert!(with("-1").starts_with("line 8: -1 ms is no time"), "{}", with("-1"));
    assert!(with("{ exponential = 0 }").contains("exponential makes no sense: its mean must be above 0"));
    assert!(with("{ uniform = [2, 1] }").contains("uniform makes no sense: the second number must be above the first"));
    assert!(with("{ gamma = 1 }").contains("a time is a number, { exponential = MEAN }"), "{}", with("{ gamma = 1 }"));
}

#[test]
fn names_that_lead_nowhere() {
    assert_eq!(refused(&customer("to = \"db\"")), "line 12: \"db\" is no [[server]]: there are web");
    assert_eq!(
        refused(&format!("{HOG}[[hog]]\nid = \"h\"\n")),
        "line 7: id \"h\" is taken: give each table an id of its own"
    );
    let circle = format!("{HOG}{SERVER}calls = [{{ to = [\"web\"] }}]\n");
    assert_eq!(refused(&circle), "line 7: the calls of \"web\" lead back to it: let no server wait for itself");
}

#[test]
fn weights_of_cgroups_out_of_range() {
    for weight in [0, 10_001] {
        let cure = "is out of range: write a number from 1 to 10000";
        assert_eq!(refused(&format!("{HOG}cpu_weight = {weight}\n")), format!("line 6: cpu_weight {weight} {cure}"));
    }
    let both = refused(&format!("{}cpu_weight = 100\n", HOG.replace("cpus = 1", "cpus = 1\ncgroup = true")));
    assert!(both.starts_with("line 7: cpu_weight is of a cgroup beside the root"), "{both}");
}
