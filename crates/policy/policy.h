/* SPDX-License-Identifier: GPL-2.0-only */
/* Every policy header, for the native build. */
#include "budget.h"
#include "elevation.h"
#include "fairness.h"
#include "histogram.h"
#include "limit.h"
#include "loan.h"
#include "party.h"
#include "progress.h"
#include "response.h"
#include "share.h"
#include "unhappiness.h"
#include "confidence.h"
