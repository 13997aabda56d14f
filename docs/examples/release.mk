# Publish a release only when the gate lets it through (make).
#
#   make -f release.mk release TAG=v1.2.0
#
# The files are those of release.yml, which does the same in GitHub Actions.
# Gate and publishing are one line of shell, joined by &&: neither `make -i` nor
# `make -o gate` reaches the one without the other.

QUALIFY     ?= qualify
CAMPAIGN    ?= app
ARTIFACT    ?= dist/app.tar.gz
BUNDLE      ?= qualify/qualification.tar.zst
ATTESTATION ?= qualify/attestation.jsonl
SEAL_LOG    ?= qualify/seal-log.jsonl
POLICY      ?= qualify/policy.yaml
KEYS        ?= qualify/keys/alice.pub qualify/keys/bob.pub
PUBLISH     ?= gh release create "$(TAG)" --verify-tag --title "$(TAG)" --notes ""

GATE = $(QUALIFY) report verify $(BUNDLE) && \
	$(QUALIFY) freeze log $(SEAL_LOG) --verify --compare bundle:$(BUNDLE) && \
	$(QUALIFY) gate $(CAMPAIGN) --store bundle:$(BUNDLE) --policy $(POLICY) \
		$(addprefix --require-attestation ,$(KEYS)) --attestation $(ATTESTATION) --artifact $(ARTIFACT)

release: ## Judge, then publish
	$(GATE) && $(PUBLISH) $(ARTIFACT) $(BUNDLE) $(ATTESTATION)

gate: ## Judge only
	$(GATE)

.PHONY: release gate
