//! Units as systemd reads them, for machines without systemd: sections, and in them settings with values.

/// What a unit may say, section by section. A word that is new here is looked up in the manual first: systemd itself
/// passes over what it does not know.
const KNOWN: [(&str, &[&str]); 4] = [
    ("Unit", &["Description", "Wants", "After", "StartLimitIntervalSec"]),
    (
        "Service",
        &[
            "Type",
            "EnvironmentFile",
            "ExecStart",
            "DynamicUser",
            "User",
            "Restart",
            "RestartSec",
            "SuccessExitStatus",
            "RestartPreventExitStatus",
            "KillMode",
            "TimeoutStopSec",
        ],
    ),
    ("Timer", &["OnCalendar", "AccuracySec", "Persistent", "Unit"]),
    ("Install", &["WantedBy"]),
];

/// What comes after the command has ended: the grace, and the time for the database to take the lease back, in seconds.
const AFTER_THE_COMMAND: u32 = 15;

pub(super) struct Unit {
    pub(super) name: String,
    /// Section, setting and value, in their order.
    settings: Vec<(String, String, String)>,
    /// The lines that are none of it.
    strange: Vec<String>,
}

impl Unit {
    pub(super) fn read(name: &str, text: &str) -> Self {
        let mut unit = Self { name: name.to_owned(), settings: Vec::new(), strange: Vec::new() };
        let mut section = String::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
                name.clone_into(&mut section);
                continue;
            }
            match line.split_once('=') {
                Some((setting, value)) if !value.is_empty() => {
                    unit.settings.push((section.clone(), setting.to_owned(), value.to_owned()));
                }
                _ => unit.strange.push(line.to_owned()),
            }
        }
        unit
    }

    pub(super) fn values(&self, section: &str, setting: &str) -> Vec<&str> {
        let settings = self.settings.iter().filter(|(of, name, _)| of == section && name == setting);
        settings.map(|(_, _, value)| value.as_str()).collect()
    }

    /// The service that a timer starts.
    fn starts(&self) -> Option<String> {
        let own = self.name.strip_suffix(".timer")?;
        let named = self.values("Timer", "Unit").first().map(|service| (*service).to_owned());
        Some(named.unwrap_or_else(|| format!("{own}.service")))
    }
}

/// What is wrong with the units, each a line.
pub(super) fn findings(units: &[Unit]) -> Vec<String> {
    let mut found = Vec::new();
    for unit in units {
        let mut finds = |problem: String| found.push(format!("{}: {problem}", unit.name));
        for line in &unit.strange {
            finds(format!("no setting: {line}"));
        }
        for (section, setting, _) in &unit.settings {
            let known = KNOWN.iter().find(|(name, _)| name == section).map_or(&[][..], |(_, known)| known);
            if !known.contains(&setting.as_str()) {
                finds(format!("unknown: {setting} of [{section}]"));
            }
        }
        if unit.values("Unit", "Description").len() != 1 {
            finds("no description".to_owned());
        }
        if let Some(service) = unit.starts() {
            if !units.iter().any(|unit| unit.name == service) {
                finds(format!("starts {service}, which is not there"));
            }
            if unit.values("Timer", "OnCalendar").is_empty() || unit.values("Install", "WantedBy").is_empty()
            {
                finds("never starts".to_owned());
            }
        } else {
            if unit.values("Service", "ExecStart").is_empty() {
                finds("starts nothing".to_owned());
            }
            let stop = unit.values("Service", "TimeoutStopSec").concat().parse::<u32>();
            if stop.is_ok_and(|stop| stop > AFTER_THE_COMMAND) {
                continue;
            }
            finds("leaves the command no time to stop".to_owned());
        }
    }
    found
}

#[test]
fn what_is_wrong_with_a_unit_is_found() {
    let service = "[Unit]\nDescription=It\n[Service]\nExecStart=/bin/true\nTimeoutStopSec=45\n";
    let timer = "[Unit]\nDescription=When\n[Timer]\nOnCalendar=daily\n[Install]\nWantedBy=timers.target\n";
    let found = |service: &str, timer: &str| {
        findings(&[Unit::read("it.service", service), Unit::read("it.timer", timer)])
    };
    assert_eq!(found(service, timer), [""; 0]);
    for (wrong, finding) in [
        (service.replace("Description=It\n", ""), "it.service: no description"),
        (service.replace("[Unit]\n", ""), "it.service: unknown: Description of []"),
        (service.replace("ExecStart", "ExecStrat"), "it.service: unknown: ExecStrat of [Service]"),
        (service.replace("[Service]", "[Sevrice]"), "it.service: unknown: ExecStart of [Sevrice]"),
        (service.replace("=/bin/true", "="), "it.service: no setting: ExecStart="),
        (service.replace("=/bin/true", ""), "it.service: starts nothing"),
        (service.replace("=45", "=15"), "it.service: leaves the command no time to stop"),
        (service.replace("TimeoutStopSec=45\n", ""), "it.service: leaves the command no time to stop"),
    ] {
        let found = found(&wrong, timer);
        assert!(found.iter().any(|found| found == finding), "{finding}: {found:?}");
    }
    for (wrong, finding) in [
        (
            timer.replace("[Timer]\n", "[Timer]\nUnit=that.service\n"),
            "it.timer: starts that.service, which is not there",
        ),
        (timer.replace("OnCalendar=daily\n", ""), "it.timer: never starts"),
        (timer.replace("WantedBy=timers.target\n", ""), "it.timer: never starts"),
    ] {
        assert_eq!(found(service, &wrong), [finding]);
    }
}
